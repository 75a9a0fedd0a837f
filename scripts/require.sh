#!/bin/sh
# Says in one sentence what is missing before set-up starts: require.sh PYTHON
set -eu
python=$1

missing() {
    echo "set-up stopped: $1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    missing "no '$python' on the PATH; install Python 3.11 or newer, or run 'make PYTHON=/path/to/python3 setup'."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "'$python' is $("$python" --version 2>&1), but 3.11 or newer is needed; run 'make PYTHON=/path/to/python3.11 setup'."
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    missing "'$python' cannot make virtual environments; install its venv package (Debian and Ubuntu: python3-venv)."
command -v git >/dev/null 2>&1 ||
    missing "no 'git' on the PATH; install git, which one of the test servers runs."
