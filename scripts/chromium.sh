#!/bin/sh
# Looks for Chromium, and installs it where the machine allows it: chromium.sh [--look]
# Ends with 0 if it is there.
set -eu

there() {
    command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
        command -v google-chrome >/dev/null 2>&1
}

missing() {
    echo "the browser tests are skipped: $1"
    exit 1
}

there && exit 0
[ "${1:-}" = --look ] && missing "Chromium is not installed ('make test-browser' tries to)."
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 ||
    missing "Chromium is not installed, and only root can install it here, with apt-get."
{ apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 ||
    missing "apt-get could not install Chromium."
there || missing "Chromium is not on the PATH after its installation."
