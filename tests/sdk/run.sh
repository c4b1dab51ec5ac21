#!/usr/bin/env bash
# Drives the simulator with the official Python clients.
#
#   tests/sdk/run.sh target/debug/hookledger
#
# Makes one virtual environment per client version (kept under $HOOKLEDGER_SDK_CACHE, by default
# ~/.cache/hookledger/sdk), starts `hookledger simulate` on free ports, runs the scripts and ends
# with a line "sdk: N passed, N failed". Exits 0 only if something passed and nothing failed.
set -euo pipefail

binary=$(realpath "${1:?usage: tests/sdk/run.sh PATH_TO_HOOKLEDGER}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${HOOKLEDGER_SDK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hookledger/sdk}
work=$(mktemp -d)
simulator=

finish() {
    if [ -n "$simulator" ]; then
        kill "$simulator" 2>/dev/null || true
        wait "$simulator" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT

# The simulator is on loopback: no proxy may stand between.
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
export PYTHONDONTWRITEBYTECODE=1
# Keys of whoever runs this must not decide what the clients do.
unset GOOGLE_API_KEY GEMINI_API_KEY GOOGLE_GEMINI_BASE_URL GOOGLE_GENAI_API_VERSION \
    GOOGLE_GENAI_USE_VERTEXAI || true

environment() { # VERSION: prints the path of a Python that has this google-genai
    local folder="$cache/google-genai-$1"
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        python3 -m venv "$folder" >&2
        "$folder/bin/pip" install --quiet --disable-pip-version-check "google-genai==$1" >&2
        touch "$folder/complete"
    fi
    echo "$folder/bin/python"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

export RECEIVER_PORT SIMULATOR_URL WEBHOOK_SECRET SHARED_SECRET
RECEIVER_PORT=$(free_port)
port=$(free_port)
SIMULATOR_URL="http://127.0.0.1:$port"
# Made here, for this run alone.
WEBHOOK_SECRET="whsec_$(python3 -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())')"
SHARED_SECRET=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')

passed=0 failed=0
script() { # VERSION FILE
    local python log="$work/$2.log" status=0
    echo "== google-genai $1: $2"
    if ! python=$(environment "$1"); then
        echo "FAILED to install google-genai $1"
        failed=$((failed + 1))
        return
    fi
    "$python" "$here/$2" >"$log" 2>&1 || status=$?
    cat "$log"
    local good bad
    good=$(grep -c '^ok ' "$log" || true)
    bad=$(grep -c '^FAILED ' "$log" || true)
    # A script that died says nothing about the checks it never came to.
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    if [ "$good" -eq 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    passed=$((passed + good)) failed=$((failed + bad))
}

"$binary" simulate --listen "127.0.0.1:$port" \
    --webhook-url "http://127.0.0.1:$RECEIVER_PORT/hooks/gemini/sdk" \
    --webhook-secret "$WEBHOOK_SECRET" --shared-secret "$SHARED_SECRET" \
    >"$work/simulator.log" 2>&1 &
simulator=$!

python3 - <<'PYTHON' || { cat "$work/simulator.log"; echo "sdk: 0 passed, 1 failed"; exit 1; }
import os, socket, sys, time, urllib.parse
url = urllib.parse.urlsplit(os.environ["SIMULATOR_URL"])
for _ in range(150):
    try:
        socket.create_connection((url.hostname, url.port), timeout=1).close()
        sys.exit(0)
    except OSError:
        time.sleep(0.1)
print("the simulator did not come up")
sys.exit(1)
PYTHON

script 3.6.1 batches_files_interactions.py
script 3.6.1 webhooks.py
script 2.34.0 video.py

if [ "$failed" -ne 0 ]; then
    echo "== the simulator said"
    tail -n 40 "$work/simulator.log"
fi
echo "sdk: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
