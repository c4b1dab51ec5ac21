#!/usr/bin/env bash
# Walks through docs/QUICKSTART.md: every `sh` and `python` block as it stands, in its order, in an empty
# folder, with the simulator in the provider's place.
#
#   tests/quickstart/run.sh target/debug/hookledger
#
# What differs from a reader's walk: the public name is Caddy's on loopback without TLS, the ports are free
# ones, `cargo install` is left out, and the SDK's environment is the one that tests/sdk/run.sh has made
# (or it is made here). Needs caddy, curl and python3 with venv.
set -euo pipefail

binary=$(realpath "${1:?usage: tests/quickstart/run.sh PATH_TO_HOOKLEDGER}")
cd "$(dirname "$0")/../.."
repository=$PWD
cache=${HOOKLEDGER_SDK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hookledger/sdk}
work=$(mktemp -d)
started=()
finish() {
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
unset GOOGLE_API_KEY GEMINI_API_KEY || true
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
public=$(free_port) admin=$(free_port) front=$(free_port) provider=$(free_port)

mkdir "$work/bin" "$work/walk"
ln -s "$binary" "$work/bin/hookledger"
ln -s "$repository/config" "$work/walk/config"
export PATH="$work/bin:$PATH" HOME="$work"
hookledger simulate --listen "127.0.0.1:$provider" >"$work/simulator.log" 2>&1 &
started+=($!)
# What the reader's machine has by being his.
export HOOKLEDGER_LISTEN="127.0.0.1:$public" HOOKLEDGER_ADMIN_LISTEN="127.0.0.1:$admin"
export GEMINI_BASE_URL="http://127.0.0.1:$provider" GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$provider"
environment=$(compgen -G "$cache/google-genai-[3-9]*" | head -n 1 || true)
if [ -n "$environment" ]; then ln -s "$environment" "$work/walk/sdk"; fi

# One file for each block, NN.sh or NN.py.
python3 - "$work" "$front" "$public" "$admin" <<'PY'
import pathlib, re, sys
work, front, public, admin = sys.argv[1:]
text = pathlib.Path("docs/QUICKSTART.md").read_text()
for n, (kind, block) in enumerate(re.findall(r"^```(sh|python)\n(.*?)^```$", text, re.M | re.S)):
    for old, new in [
        ("https://hooks.example", f"http://127.0.0.1:{front}"),
        ("SITE=hooks.example", f"SITE=http://127.0.0.1:{front}"),
        ("127.0.0.1:8080", f"127.0.0.1:{public}"),
        ("127.0.0.1:8081", f"127.0.0.1:{admin}"),
    ]:
        block = block.replace(old, new)
    pathlib.Path(work, f"{n:02}.{'py' if kind == 'python' else 'sh'}").write_text(block)
PY

cargo() { echo "(left out: cargo $*)"; }
# Nobody waits half a minute for a simulated batch.
sleep() { command sleep "$(python3 -c 'import sys; print(min(float(sys.argv[1]), 1))' "$1")"; }
cd "$work/walk"
blocks=0
for block in "$work"/[0-9][0-9].*; do
    blocks=$((blocks + 1))
    echo "== $(basename "$block"): $(head -n 1 "$block")"
    case $block in
    *.py) cp "$block" "$(sed -n '1s/^# //p' "$block")" ;;
    *)
        if head -n 1 "$block" | grep -q '^# keep it running'; then
            # Replaced by its last command, so that its id is the one to end.
            bash -c "$(sed '1d;/^HOOKLEDGER_SITE/s/^/exec env /;s/^hookledger /exec hookledger /' "$block")" \
                >"$work/$(basename "$block").log" 2>&1 &
            started+=($!)
        else
            if grep -q '^curl' "$block"; then
                for _ in $(seq 100); do
                    if curl -s -o /dev/null --fail "http://127.0.0.1:$front/healthz"; then break; fi
                    command sleep 0.1
                done
            fi
            # In this shell: what one block sets, the next one uses.
            set +u
            . "$block" >"$work/said" 2>&1 || { cat "$work/said" "$work"/*.log >&2; exit 1; }
            set -u
            cat "$work/said"
        fi
        ;;
    esac
    case $(basename "$block") in
    01.sh) grep -qx 'the configuration is good' "$work/said" ;;
    esac
    if grep -q 'events list' "$block"; then grep -q ping "$work/said"; fi
    if grep -q responses.jsonl "$block"; then
        grep -Eq 'settled.by *:? *"?webhook' "$work/said"
        grep -q 'echo: Greet the ledger' "$work/said"
    fi
done
[ "$blocks" -ge 10 ]
echo "quickstart: $blocks blocks walked through"
