#!/usr/bin/env bash
# Counts the instructions of every comparison of a secret under callgrind: they must not depend on
# where the presented value is wrong. Counts are exact, so there is nothing statistical here.
#
# The library and the crates that compare are built as a release builds them (opt-level 3), all else
# as every other test builds it: what is measured is the code that ships, at a fraction of the time.
set -euo pipefail
cd "$(dirname "$0")/../.."

optimised=(hookledger sha2@0.11 hmac@0.13 subtle data-encoding http bytes uuid)
config=()
for package in "${optimised[@]}"; do
    config+=(--config "profile.dev.package.\"$package\".opt-level=3")
done
binary="$(cargo test --locked --no-run --test constant_time "${config[@]}" \
    --message-format=json-render-diagnostics | python3 -c '
import json, sys
found = [m["executable"] for m in map(json.loads, sys.stdin)
         if m.get("reason") == "compiler-artifact" and m["target"]["name"] == "constant_time"]
print(found[-1])')"

# Instructions of one case and variant.
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no \
        --toggle-collect='*constant_time::measured*' "$binary" "$1" "$2" 2>&1 |
        sed -n 's/^==[0-9]*== Collected : //p'
}

failed=0 passed=0
# case, what its variants are, whether their counts must be `equal` or `unequal`
compare() {
    local counts=() variant
    for variant in $(seq 0 $(($(wc -w <<<"$2") - 1))); do
        counts+=("$(count "$1" "$variant")")
    done
    local different verdict=ok
    different="$(printf '%s\n' "${counts[@]}" | sort -u | wc -l)"
    if [[ -z "${counts[0]}" || "${counts[0]}" -lt 100 ]]; then verdict='FAILED: nothing was counted'
    elif [[ "$3" == equal && "$different" -ne 1 ]]; then verdict='FAILED: the counts differ'
    elif [[ "$3" == unequal && "$different" -eq 1 ]]; then verdict='FAILED: an early exit went unseen'
    fi
    printf '%-14s %-34s %-40s %s\n' "$1" "$2" "${counts[*]}" "$verdict"
    if [[ "$verdict" == ok ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

compare control 'first middle last' unequal
compare path-token 'first middle last' equal
compare reservation 'first middle last other-id' equal
compare source 'known unknown' equal
compare shared-secret 'first middle last' equal
compare admin-token 'first middle last' equal
compare which-admin 'first second' equal
compare signature 'first middle last' equal
compare which-secret 'first second' equal
printf 'constant time: %s passed, %s failed\n' "$passed" "$failed"
[[ "$failed" -eq 0 ]]
