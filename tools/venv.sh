#!/usr/bin/env bash
# Makes the virtual environment in .venv; leaves one that works as it is.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    exit 0
fi

python=$(tools/python.sh)
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# Debian ships Python without the parts that make an environment.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    apt_install_first "python$version-venv" python3-venv && "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        stop "$python cannot make virtual environments. Install python$version-venv (Debian, Ubuntu: apt install python$version-venv)."
fi

say "Creating .venv with Python $version ..."
"$python" -m venv --clear .venv
