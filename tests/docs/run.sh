#!/usr/bin/env bash
# Runs every command that README.md and docs/ show, block by block, and holds what they print against
# what stands there.
#
#   tests/docs/run.sh target/debug/hookledger [FILE]...
#
# A remark before a block (`<!-- walk: … -->`) says what is true when a reader comes to it, or that the
# block is left out and why; walk.py knows the words. Needs python3, curl, jq and sqlite3.
set -euo pipefail
binary=$(realpath "${1:?usage: tests/docs/run.sh PATH_TO_HOOKLEDGER [FILE]...}")
cd "$(dirname "$0")/../.."
shift
exec python3 tests/docs/walk.py "$binary" "$@"
