#!/usr/bin/env bash
# Prints the JAVA_HOME that Spark is to use (Java 17 or newer), and installs a JRE where there is none.
# Looks at JAVA_HOME, then at java on the PATH, then at where systems keep their JVMs.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly oldest=17

# home_of JAVA: the home of this java; fails if it is none, or too old.
# Asked of java itself, because the one on the PATH may be a launcher that lies elsewhere.
home_of() {
    local settings version home
    settings=$("$1" -XshowSettings:properties -version 2>&1) || return 1
    version=$(sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p' <<<"$settings")   # 1.8 gives 1
    home=$(sed -n 's/^ *java\.home = //p' <<<"$settings")
    [ "${version:-0}" -ge "$oldest" ] && [ -n "$home" ] && echo "$home"
}

find_java() {
    local java
    for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java || true)" \
        /usr/lib/jvm/*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java /opt/homebrew/opt/openjdk*/bin/java; do
        if [ -x "$java" ] && home_of "$java"; then return 0; fi
    done
    return 1
}

find_java && exit 0
if can_apt; then
    say "No Java $oldest or newer found, and Spark needs one."
    if apt_install_first openjdk-17-jre-headless openjdk-21-jre-headless && find_java; then exit 0; fi
fi
stop "Spark needs Java $oldest or newer; install it and try again" \
    "(Debian, Ubuntu: apt install openjdk-17-jre-headless; Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@17)."
