#!/usr/bin/env bash
# Asks a running service everything that its OpenAPI document allows, and much that it does not.
#
#   tests/openapi/run.sh target/debug/hookledger
#
# Starts `hookledger simulate` and `hookledger serve` on free ports, puts a few jobs into the ledger, and
# lets schemathesis (kept under ${XDG_CACHE_HOME:-~/.cache}/hookledger/openapi) send examples from one seed.
# Fails on any 5xx and on any answer that the document does not tell of. Ends with the tool's own
# summary and a line "openapi: passed" or "openapi: failed". Needs python3 with venv and pip, and curl.
#
#   HOOKLEDGER_SEED      other examples (the seed is printed)
#   HOOKLEDGER_EXAMPLES  how many random ones for each operation, beside those that its schemas suggest
#                        (default 3)
set -euo pipefail

version=4.32.5
binary=$(realpath "${1:?usage: tests/openapi/run.sh PATH_TO_HOOKLEDGER}")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hookledger/openapi/schemathesis-$version
seed=${HOOKLEDGER_SEED:-20261130} examples=${HOOKLEDGER_EXAMPLES:-3}
checks=not_a_server_error,status_code_conformance,content_type_conformance
checks+=,response_headers_conformance,response_schema_conformance,ignored_auth
work=$(mktemp -d)
processes=()
result=failed

finish() {
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$work"
    echo "openapi: $result"
}
trap finish EXIT

export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost PYTHONDONTWRITEBYTECODE=1

if [ ! -e "$cache/complete" ]; then
    rm -rf "$cache"
    python3 -m venv "$cache"
    "$cache/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
    touch "$cache/complete"
fi

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

wait_for() { # URL
    for _ in $(seq 300); do
        curl --silent --output /dev/null "$1" && return 0
        sleep 0.1
    done
    echo "nothing answers at $1" >&2
    cat "$work"/*.log >&2
    return 1
}

simulator=$(free_port) public=$(free_port) admin=$(free_port)
token=openapi-test-token-0123456789abcdefgh
export HOOK_PATH_TOKEN=openapi-path-token-0123456789abcdefgh HOOKLEDGER_ADMIN_TOKEN=$token
export HOOK_SHARED_SECRET=openapi-shared-secret-0123456789abcdefgh GEMINI_API_KEY=openapi-test-key
export GEMINI_BASE_URL=http://127.0.0.1:$simulator HOOK_DB=$work/webhook.db
export HOOKLEDGER_LISTEN=127.0.0.1:$public HOOKLEDGER_ADMIN_LISTEN=127.0.0.1:$admin
cd "$work"

"$binary" simulate --listen "127.0.0.1:$simulator" >simulator.log 2>&1 &
processes+=($!)
"$binary" serve >service.log 2>&1 &
processes+=($!)
wait_for "http://127.0.0.1:$public/readyz"

# Something to be found, on each side.
for name in batches/one interactions/two models/veo/operations/three; do
    "$binary" operations register --name "$name" --job-kind nightly >/dev/null
done
"$binary" operations reserve --job-kind nightly >/dev/null
"$binary" operations retry batches/one >/dev/null

"$cache/bin/schemathesis" run "http://127.0.0.1:$admin/api/v1/openapi.json" \
    --header "Authorization: Bearer $token" --url "http://127.0.0.1:$admin" --checks "$checks" \
    --phases coverage,fuzzing --max-examples "$examples" --seed "$seed" \
    --generation-database none --request-timeout 30 --no-color | tee "$work/report"
# An empty run is no proof.
grep -Eq 'Tested: *[1-9]' "$work/report"
result=passed
