#!/usr/bin/env bash
# What Prometheus' own tool says about the rules, their cases, the configuration, the dashboard's
# expressions, and the page of a running service that has counted something.
#
#   tests/metrics/run.sh target/debug/hookledger
set -euo pipefail

binary=$(realpath "${1:?usage: tests/metrics/run.sh PATH_TO_HOOKLEDGER}")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
service=
finish() {
    if [ -n "$service" ]; then kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1

promtool check rules config/alerts.yml
promtool test rules config/alerts_test.yml
promtool check config config/prometheus.yml

# The dashboard's expressions, as rules.
python3 - >"$work/dashboard.yml" <<'PY'
import json
board = json.load(open("config/grafana/hookledger.json"))
targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
targets += [one["expr"] for one in board["annotations"]["list"]]
rules = [{"record": f"a:b:c{n}", "expr": e.replace("$instance", ".*")} for n, e in enumerate(targets)]
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
PY
promtool check rules "$work/dashboard.yml"

# Nobody listens at the API's address: what is fetched is counted as unavailable.
env -i PATH="$PATH" HOME="$work" HOOK_DB="$work/webhook.db" HOOKLEDGER_LISTEN=127.0.0.1:0 \
    HOOKLEDGER_ADMIN_LISTEN=127.0.0.1:0 HOOK_PATH_TOKEN=metrics-path-token-0123456789abcdef \
    HOOK_SHARED_SECRET=metrics-shared-secret-0123456789ab HOOKLEDGER_ADMIN_TOKEN=metrics-admin-token-0123456789abcdef \
    GEMINI_API_KEY=metrics-key GEMINI_BASE_URL=http://127.0.0.1:9 \
    "$binary" serve 2>"$work/log" &
service=$!
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*accepts deliveries.*/\1/p;s/.*accepts deliveries.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$work/log" | head -n 1; }
for _ in $(seq 100); do
    if [ -n "$(field admin)" ]; then break; fi
    sleep 0.1
done
public=$(field public) admin=$(field admin)
[ -n "$admin" ] || { cat "$work/log" >&2; exit 1; }
deliver() { # SECRET BODY: prints the status
    curl -s -o /dev/null -w '%{http_code}' -H "x-hook-secret: $1" -H 'content-type: application/json' \
        --data "$2" "http://$public/hooks/gemini/metrics-path-token-0123456789abcdef"
}
[ "$(deliver metrics-shared-secret-0123456789ab '{"type":"batch.succeeded","data":{"id":"batches/a"}}')" = 200 ]
[ "$(deliver wrong-wrong-wrong-wrong-wrong-wro '{}')" = 401 ]
for _ in $(seq 100); do
    curl -s "http://$admin/metrics" >"$work/page"
    if grep -q '^hookledger_fetch_seconds_count' "$work/page"; then break; fi
    sleep 0.1
done
grep -q '^hookledger_queue_lag_seconds_count{reason="webhook"} 1$' "$work/page"
grep -q '^hookledger_deliveries_total{source="gemini",verdict="accepted"} 1$' "$work/page"
grep -q '^hookledger_refusals_total{source="gemini",reason="bad_shared_secret"} 1$' "$work/page"
# It prints what it dislikes and fails; a warning fails too.
promtool check metrics <"$work/page" >"$work/lint" 2>&1 || { cat "$work/lint" >&2; exit 1; }
[ ! -s "$work/lint" ] || { cat "$work/lint" >&2; exit 1; }
echo "metrics: $(grep -c '^# TYPE' "$work/page") on the page, none of them disliked"
