#!/usr/bin/env bash
# Drives the operator's page with a real Chromium.
#
#   tests/browser/run.sh target/debug/hookledger [FOLDER_FOR_SCREENSHOTS]
#
# Installs what package-lock.json names (kept under ~/.cache/hookledger/browser), starts `hookledger
# serve`, `hookledger simulate` and a receiver of effects on free ports, and ends with a line
# "browser: N passed, N failed". Needs node, npm and chromium ($CHROMIUM, /usr/bin/chromium).
set -euo pipefail

binary=$(realpath "${1:?usage: tests/browser/run.sh PATH_TO_HOOKLEDGER [FOLDER]}")
shots=${2:-$(dirname "$binary")/../browser}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${HOOKLEDGER_BROWSER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hookledger/browser}

mkdir -p "$work" "$shots"
cp "$here"/package.json "$here"/package-lock.json "$work/"
if ! cmp -s "$here/package-lock.json" "$work/installed"; then
    npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund --loglevel=error
    cp "$here/package-lock.json" "$work/installed"
fi
cp "$here"/*.mjs "$work/"
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
exec node "$work/page.mjs" "$binary" "$(realpath "$shots")"
