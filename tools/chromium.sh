#!/usr/bin/env bash
# Prints the browser that the tests of the page drive, and installs Debian's chromium where there is none.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v chromium && exit 0
if can_apt; then
    say "No chromium found, and the tests of the page need one."
    if apt_install_first chromium && command -v chromium; then exit 0; fi
fi
stop "the tests of the page need chromium; install it and try again (Debian, Ubuntu: apt install chromium)."
