# Sourced by the other scripts: messages, and packages from Debian's archive.
# Messages go to stderr because the scripts print their result on stdout.

say() { printf '%s\n' "$*" >&2; }
stop() { say "sash: $*"; exit 1; }

# Runs a command as root, without asking for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_apt() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] || sudo -n true >/dev/null 2>&1
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"; }

# apt_install_first NAME...: installs the first of these packages that the archive has.
apt_install_first() {
    local package log
    can_apt || return 1
    log=$(mktemp)
    say "Updating the package lists ..."
    apt_get update >"$log" 2>&1 || say "apt-get update failed; trying with the lists at hand"
    for package in "$@"; do
        apt_get install --simulate "$package" >/dev/null 2>&1 || continue
        say "Installing $package (about a minute) ..."
        if apt_get install --yes --no-install-recommends "$package" >"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
        tail -n 5 "$log" >&2
    done
    rm -f "$log"
    return 1
}
