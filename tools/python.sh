#!/usr/bin/env bash
# Prints a Python that can run Sash (3.11 or newer): $PYTHON, else python3, else a versioned one.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Versions past 3.13 come last: for them some packages must be compiled first.
for condition in '(3, 11) <= version < (3, 14)' '(3, 11) <= version'; do
    for python in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$python" -c "import sys; version = sys.version_info; sys.exit(not ($condition))" >/dev/null 2>&1; then
            echo "$python"
            exit 0
        fi
    done
done
stop "Python 3.11 or newer is needed; ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>/dev/null || echo missing)." \
    "Install one (Debian, Ubuntu: apt install python3.11; Fedora: dnf install python3; macOS: brew install python) or set PYTHON."
