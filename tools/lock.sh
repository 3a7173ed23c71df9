#!/usr/bin/env bash
# Writes requirements.lock: what pyproject.toml and all its extras resolve to today, in an environment of its own.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The oldest Python that we support, because newer ones would lock packages that it cannot install.
python=
for candidate in python3.11 python3 .venv/bin/python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || stop "locking needs Python 3.11, the oldest version that Sash supports."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say "Resolving the newest packages in a throwaway environment (a few minutes) ..."
"$python" -m venv "$scratch/venv"
"$python" - >"$scratch/wanted" <<'PY'
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], *sum(project["optional-dependencies"].values(), []), sep="\n")
PY
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$scratch/wanted"
"$scratch/venv/bin/python" -m pip freeze >"$scratch/frozen"
if grep -vE '^[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+$' "$scratch/frozen" >&2; then
    stop "the packages above have no plain version; requirements.lock is unchanged."
fi
{
    echo "# Written by \`make lock\`: every package that Sash, its extras and its tests need."
    cat "$scratch/frozen"
} >requirements.lock
say "requirements.lock: $(grep -c == requirements.lock) packages"
