#!/usr/bin/env bash
# The image's last stage, as the Dockerfile writes it, under podman with the flags of docker-compose.yml:
# it becomes healthy, holds nothing it need not hold, keeps a ledger, stops in good order, and says what is
# wrong when its volume cannot be written.
#
#   tests/container/run.sh target/debug/hookledger
#
# Needs root, podman and runc; no network and no image of anybody else. The program is the one that the
# other tests run: what is tested is the image and its rights. Without systemd podman has nobody to run health
# checks by the clock (and says so, which is not shown), so each is asked for.
set -euo pipefail

binary=$(realpath "${1:?usage: tests/container/run.sh PATH_TO_HOOKLEDGER}")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
name="hookledger-test-$$" image="localhost/hookledger-test:$$"
# A store of its own: nothing of this machine's images is used or left behind.
engine() { podman --root "$work/store" --runroot "$work/run" --storage-driver vfs --runtime runc --cgroup-manager cgroupfs "$@"; }
finish() {
    engine rm -f -t 1 "$name" >/dev/null 2>&1 || true
    chattr -i "$work/data/webhook.db-wal" 2>/dev/null || true
    umount "$work/data" 2>/dev/null || true
    engine rmi -f "$image" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
passed=0
ok() { passed=$((passed + 1)); echo "ok: $1"; }
fail() { echo "FAILED: $1" >&2; engine logs "$name" 2>&1 | tail -n 20 >&2 || true; exit 1; }

# The last stage alone; what the stage before would have laid out is laid out here.
config/image-root.sh "$binary" "$work/out"
sed -n '/^FROM scratch$/,$p' Dockerfile | sed 's#--from=build ##; s#/out#out#' >"$work/Containerfile"
engine build --quiet --isolation chroot --format docker -t "$image" -f "$work/Containerfile" "$work" >/dev/null
[ "$(find "$work/out" -type f | wc -l)" -le 10 ] || fail 'the image holds more than it needs'
ok "built, $(find "$work/out" -type f | wc -l) files"

mkdir -p "$work/data" "$work/secrets"
for secret in hook_path_token hook_shared_secret hookledger_admin_token gemini_api_key; do
    "$binary" secret new >"$work/secrets/$secret"
done
chown -R 65532:65532 "$work/secrets" && chmod 400 "$work"/secrets/*
# Flags of docker-compose.yml; tests/it/compose.rs holds the two together.
flags=(--network none --read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 256 --memory 256m
    --ulimit nofile=4096:4096 --ulimit nproc=4096:4096
    --tmpfs /tmp:size=16m,mode=1777,noexec,nosuid
    -e HOOK_PATH_TOKEN_FILE=/run/secrets/hook_path_token
    -e HOOK_SHARED_SECRET_FILE=/run/secrets/hook_shared_secret
    -e HOOKLEDGER_ADMIN_TOKEN_FILE=/run/secrets/hookledger_admin_token
    -e GEMINI_API_KEY_FILE=/run/secrets/gemini_api_key
    -e GEMINI_BASE_URL=http://127.0.0.1:8090)
for secret in "$work"/secrets/*; do flags+=(-v "$secret:/run/secrets/$(basename "$secret"):ro"); done
start() { # VOLUME_OPTIONS
    engine run -d --name "$name" "${flags[@]}" -v "$work/data:/data$1" "$image" >/dev/null 2>"$work/error"
}
inside() { engine exec "$name" /usr/local/bin/hookledger "$@"; }
healthy() { engine healthcheck run "$name" >/dev/null 2>&1; }
state() { engine inspect -f "{{.State.$1}}" "$name"; }
until_healthy() {
    for _ in $(seq 100); do
        if healthy; then return; fi
        sleep 0.2
    done
    fail 'it did not become healthy'
}

chown 65532:65532 "$work/data"
start '' || { cat "$work/error" >&2; fail 'it does not start'; }
until_healthy
ok 'started and healthy'

pid=$(state Pid)
field() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$pid/status"; }
[ "$(field Uid | cut -f 1)" = 65532 ] || fail "it runs as $(field Uid)"
[ "$(field CapEff)" = 0000000000000000 ] && [ "$(field CapBnd)" = 0000000000000000 ] || fail 'it has capabilities'
[ "$(field NoNewPrivs)" = 1 ] || fail 'it may gain privileges'
[ "$(field Seccomp)" = 2 ] || fail 'it runs without a seccomp filter'
awk '$5 == "/" { print $6 }' "/proc/$pid/mountinfo" | grep -q '^ro\b' || fail 'its root can be written'
ok 'uid 65532, no capability, no new privileges, a seccomp filter, a read-only root'

inside operations register --name batches/in-a-container --job-kind container >/dev/null
inside operations list --json | grep -q batches/in-a-container || fail 'it keeps no ledger'
engine logs "$name" 2>&1 | grep -qF "$(cat "$work/secrets/hook_path_token")" && fail 'a secret is in its log'
ok 'it keeps a ledger, by its own command inside'

engine stop -t 30 "$name" >/dev/null 2>&1
[ "$(state ExitCode)" = 0 ] || fail "it stopped with $(state ExitCode)"
engine start "$name" >/dev/null 2>&1
until_healthy
inside operations list --json | grep -q batches/in-a-container || fail 'a restart lost it'
ok 'stopped with 0, started again with its ledger'

# The file can be written no more, as when a disk turns read-only under it.
if chattr +i "$work/data/webhook.db-wal" 2>/dev/null; then
    inside operations register --name batches/too-late --job-kind container >/dev/null 2>&1 && fail 'it said yes without a disk'
    for _ in $(seq 50); do
        if ! healthy; then break; fi
        sleep 0.2
    done
    if healthy; then fail 'healthy without a disk'; fi
    chattr -i "$work/data/webhook.db-wal"
    ok 'unhealthy when its disk turns read-only'
fi
engine rm -f -t 1 "$name" >/dev/null 2>&1

start ':ro' || true
for _ in $(seq 50); do
    if [ "$(state Status)" = exited ]; then break; fi
    sleep 0.2
done
if healthy; then fail 'healthy on a volume that it cannot write'; fi
[ "$(state ExitCode)" != 0 ] || fail 'it ended as if all were well'
engine logs "$name" 2>&1 | grep -qi 'read-only' || fail 'it does not say why'
ok 'a read-only volume: it ends, says why, is never healthy'
engine rm -f -t 1 "$name" >/dev/null 2>&1

chown root:root "$work/data" && chmod 700 "$work/data"
start '' || true
for _ in $(seq 50); do
    if [ "$(state Status)" = exited ]; then break; fi
    sleep 0.2
done
if healthy; then fail 'healthy on a volume of somebody else'; fi
engine logs "$name" 2>&1 | grep -qi 'permission denied' || fail 'it does not say why'
ok "somebody else's volume: it ends and says why"
echo "container: $passed passed"
