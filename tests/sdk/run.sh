#!/usr/bin/env bash
# Drives the simulator with the official Python clients, and a running service with deliveries that the
# official Standard Webhooks libraries of Python and JavaScript have signed.
#
#   tests/sdk/run.sh target/debug/hookledger
#
# Makes one environment per library and version (kept under $HOOKLEDGER_SDK_CACHE, by default
# ~/.cache/hookledger/sdk), starts `hookledger simulate` and `hookledger serve` on free ports, runs the
# scripts and ends with a line "sdk: N passed, N failed". Exits 0 only if something passed and nothing
# failed. Needs python3 with venv and pip, node and npm.
set -euo pipefail

for tool in python3 node npm; do
    if ! command -v "$tool" >/dev/null; then
        echo "FAILED: $tool is missing on this machine"
        echo "sdk: 0 passed, 1 failed"
        exit 1
    fi
done

binary=$(realpath "${1:?usage: tests/sdk/run.sh PATH_TO_HOOKLEDGER}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${HOOKLEDGER_SDK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hookledger/sdk}
work=$(mktemp -d)
simulator=
service=

finish() {
    for process in $service $simulator; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT

# The simulator is on loopback: no proxy may stand between.
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
export PYTHONDONTWRITEBYTECODE=1
# Keys of whoever runs this must not decide what the clients do.
unset GOOGLE_API_KEY GEMINI_API_KEY GOOGLE_GEMINI_BASE_URL GOOGLE_GENAI_API_VERSION \
    GOOGLE_GENAI_USE_VERTEXAI || true

environment() { # PACKAGE VERSION: prints the path of a Python that has it
    local folder="$cache/$1-$2"
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        python3 -m venv "$folder" >&2 || return 1
        "$folder/bin/pip" install --quiet --disable-pip-version-check "$1==$2" >&2 || return 1
        touch "$folder/complete"
    fi
    echo "$folder/bin/python"
}

modules() { # PACKAGE VERSION: prints the path of a folder whose modules have it
    local folder="$cache/npm-$1-$2"
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        npm install --prefix "$folder" --save-exact --ignore-scripts --no-audit --no-fund \
            --loglevel=error "$1@$2" >&2 || return 1
        touch "$folder/complete"
    fi
    echo "$folder"
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
count() { # LOG STATUS: adds up what a script printed
    local good bad
    cat "$1"
    good=$(grep -c '^ok ' "$1" || true)
    bad=$(grep -c '^FAILED ' "$1" || true)
    # A script that died says nothing about the checks it never came to.
    if [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    if [ "$good" -eq 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    passed=$((passed + good)) failed=$((failed + bad))
}

script() { # PACKAGE VERSION FILE
    local python log="$work/$3.log" status=0
    echo "== $1 $2: $3"
    if ! python=$(environment "$1" "$2"); then
        echo "FAILED to install $1 $2"
        failed=$((failed + 1))
        return
    fi
    "$python" "$here/$3" >"$log" 2>&1 || status=$?
    count "$log" "$status"
}

node_script() { # PACKAGE VERSION FILE
    local log="$work/$3.log" status=0
    echo "== $1 $2 (npm): $3"
    if ! MODULES=$(modules "$1" "$2"); then
        echo "FAILED to install $1 $2 (npm)"
        failed=$((failed + 1))
        return
    fi
    export MODULES
    node "$here/$3" >"$log" 2>&1 || status=$?
    count "$log" "$status"
}

up() { # URL LOG: waits until something listens there
    URL=$1 python3 - <<'PYTHON' || { cat "$2"; echo "sdk: 0 passed, 1 failed"; exit 1; }
import os, socket, sys, time, urllib.parse
url = urllib.parse.urlsplit(os.environ["URL"])
for _ in range(150):
    try:
        socket.create_connection((url.hostname, url.port), timeout=1).close()
        sys.exit(0)
    except OSError:
        time.sleep(0.1)
print("nothing came up at", url.netloc)
sys.exit(1)
PYTHON
}

"$binary" simulate --listen "127.0.0.1:$port" \
    --webhook-url "http://127.0.0.1:$RECEIVER_PORT/hooks/gemini/sdk" \
    --webhook-secret "$WEBHOOK_SECRET" --shared-secret "$SHARED_SECRET" \
    >"$work/simulator.log" 2>&1 &
simulator=$!

up "$SIMULATOR_URL" "$work/simulator.log"

script google-genai 3.6.1 batches_files_interactions.py
script google-genai 3.6.1 webhooks.py
script google-genai 2.34.0 video.py

# The service: signatures alone count. Its secrets in each form that is handed out: whsec_ and base64 of
# 32 and of 64 bytes, base64 alone, and a text whose own bytes are the key.
secret() { python3 -c 'import base64, os, sys; print(base64.b64encode(os.urandom(int(sys.argv[1]))).decode())' "$1"; }
token=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')
service_port=$(free_port)
export SERVICE_URL SERVICE_SECRETS
SERVICE_URL="http://127.0.0.1:$service_port/hooks/gemini/$token"
SERVICE_SECRETS="whsec_$(secret 32),$(secret 24),whsec_$(secret 64),$(python3 -c 'import secrets; print(secrets.token_hex(20) + "!")')"
HOOK_PATH_TOKEN=$token GEMINI_WEBHOOK_SECRETS=$SERVICE_SECRETS GEMINI_API_KEY=test-key \
    GEMINI_BASE_URL=$SIMULATOR_URL HOOK_DB="$work/webhook.db" \
    HOOKLEDGER_LISTEN="127.0.0.1:$service_port" HOOKLEDGER_ADMIN_LISTEN="127.0.0.1:$(free_port)" \
    HOOKLEDGER__SOURCES__GEMINI__SHARED_HEADER=false HOOKLEDGER__STORE__MIN_FREE_DISK=1MiB \
    "$binary" serve >"$work/service.log" 2>&1 &
service=$!
up "$SERVICE_URL" "$work/service.log"

script standardwebhooks 1.1.0 signers.py
node_script standardwebhooks 1.1.1 signers.mjs

if [ "$failed" -ne 0 ]; then
    echo "== the simulator said"
    tail -n 40 "$work/simulator.log"
    echo "== the service said"
    tail -n 40 "$work/service.log"
fi
echo "sdk: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
