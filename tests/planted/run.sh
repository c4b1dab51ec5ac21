#!/usr/bin/env bash
# Tests of the tests: each patch beside this file plants one bug, and the test (or the row of the slow
# suites) that its head names must fail. A patch that no longer applies, does not compile, or goes unnoticed fails this script.
#
#   tests/planted/run.sh --all
#   tests/planted/run.sh --rotate N     N of them, others for another commit
#   tests/planted/run.sh NAME…
#
# The bug is planted in the working tree, which must be clean, and is always taken out again.
set -euo pipefail
cd "$(dirname "$0")/../.."
export RUST_BACKTRACE=0 CARGO_TERM_COLOR=never

all=()
for patch in tests/planted/*.patch; do all+=("$(basename "$patch" .patch)"); done
case "${1:---all}" in
--all) chosen=("${all[@]}") ;;
--rotate)
    start=$((16#$(git rev-parse HEAD 2>/dev/null | cut -c1-6 || date +%j)))
    chosen=()
    for n in $(seq 0 $(($2 - 1))); do chosen+=("${all[$(((start + n) % ${#all[@]}))]}"); done
    ;;
*) chosen=("$@") ;;
esac

if [ -n "$(git status --porcelain --untracked-files=no 2>/dev/null)" ]; then
    echo 'planted: the working tree has changes; commit them first' >&2
    exit 2
fi
planted=
take_out() {
    [ -z "$planted" ] || git apply -R "$planted"
    planted=
}
trap take_out EXIT

log=$(mktemp)
caught=0 missed=0 skipped=0
for name in "${chosen[@]}"; do
    patch=tests/planted/$name.patch
    test=$(sed -n 's/^Test: //p' "$patch") row=$(sed -n 's/^Row: //p' "$patch")
    if [ -n "$row" ]; then
        target=(--test proof --features failpoints) which=("$row")
    else
        read -r -a target <<<"${test% *}"
        which=("${test##* }" --exact)
    fi
    verdict=
    if ! git apply "$patch" 2>"$log"; then
        verdict='does not apply'
    else
        planted=$patch
        if ! cargo test --locked --quiet "${target[@]}" --no-run >"$log" 2>&1; then
            verdict='does not compile'
        elif cargo test --locked "${target[@]}" -- "${which[@]}" >"$log" 2>&1; then
            verdict='NOT CAUGHT'
            ! grep -q '^skipped ' "$log" || verdict=skipped
        elif ! grep -qE "^test result: FAILED. 0 passed; 1 failed|^FAILED  $row.* s\)" "$log"; then
            verdict='its test did not run'
        fi
        take_out
    fi
    if [ "$verdict" = skipped ]; then
        skipped=$((skipped + 1))
        grep '^skipped ' "$log"
    elif [ -z "$verdict" ]; then
        caught=$((caught + 1))
        echo "caught  $name by ${which[0]}"
    else
        missed=$((missed + 1))
        echo "FAILED  $name: $verdict (${target[*]} ${which[*]})"
        tail -n 20 "$log" >&2
    fi
done
rm -f "$log"
echo "planted: $caught caught, $missed missed, $skipped skipped"
[ "$missed" = 0 ]
