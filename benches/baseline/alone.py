#!/usr/bin/env python3
"""The inserts of a delivery and nothing else: how cheap the store could be with these tables.

benches/baseline/alone.py [DIRECTORY]

One connection, WAL, synchronous=FULL, sixty deliveries in each commit; no HTTP, no proofs, no documents, no
second thread. Says the processor time of each delivery with the schema as it is, and with fewer indexes,
so that what an index costs can be seen before one is added or dropped.
"""

import sqlite3
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNT, GROUP, ROUNDS = 30_000, 60, 3
HEADERS = ('[["host","127.0.0.1:8080"],["content-type","application/json"],["webhook-id","r0-x-1"],'
           '["webhook-timestamp","1769083200"],["webhook-signature","v1,' + "K" * 43 + '="],["content-length","170"]]')
STATEMENTS = [
    "INSERT INTO processed_events (source, dedupe_key, event_id, received_at_ms, outcome, expires_at_ms) "
    "VALUES ('gemini', 'id:' || ?2, ?1, ?4, 'accepted', ?4 + 1) ON CONFLICT DO UPDATE SET duplicates = duplicates + 1",
    "INSERT INTO captured_events (id, source, received_at_ms, verdict, event_type, operation, segment, webhook_id, "
    "dedupe_key, proof, headers, body) VALUES (?1, 'gemini', ?4, 'accepted', 'batch.succeeded', ?3, ?2, ?2, "
    f"'id:' || ?2, 'header+signature', '{HEADERS}', x'{'78' * 170}')",
    "INSERT INTO work_queue (ref_key, raw, segment, kind_hint, event_id, reason, fresh, state, created_at_ms, "
    "available_at_ms) VALUES (?3, ?3, ?2, 'batch', ?1, 'webhook', 1, 'ready', ?4, ?4) "
    "ON CONFLICT (ref_key) WHERE state = 'ready' DO UPDATE SET fresh = 1",
]
# What each variant goes without.
VARIANTS = {
    "as it is": [],
    "without what only lists and pruning read": ["captured_events_bodies", "captured_events_age", "work_queue_open"],
    "keys alone": ["captured_events_bodies", "captured_events_age", "captured_events_operation", "work_queue_open",
                   "work_queue_segment", "work_queue_due", "processed_events_expiry"],
}


def deliveries():
    start = 1_769_083_200_000
    for n in range(COUNT):
        at = start + n // 15
        yield (f"{at:012x}"[:8] + f"-{at & 0xffff:04x}-7000-8000-{n * 2654435761 % 2**48:012x}", f"r0-h-{n}",
               f"batches/r0-h-{n}", at)


def once(directory, without):
    path = Path(directory) / "alone.db"
    for old in path.parent.glob("alone.db*"):
        old.unlink()
    file = sqlite3.connect(path, isolation_level=None)
    file.executescript("PRAGMA auto_vacuum = incremental; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
    for migration in sorted((ROOT / "migrations" / "sqlite").glob("*.sql")):
        file.executescript(migration.read_text())
    for index in without:
        file.execute(f"DROP INDEX {index}")
    rows = list(deliveries())
    began = time.process_time()
    for first in range(0, COUNT, GROUP):
        file.execute("BEGIN IMMEDIATE")
        for statement in STATEMENTS:
            file.executemany(statement, rows[first:first + GROUP])
        file.execute("COMMIT")
    spent = time.process_time() - began
    file.close()
    return spent * 1e6 / COUNT


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as directory:
        for name, without in VARIANTS.items():
            rounds = sorted(once(directory, without) for _ in range(ROUNDS))
            print(f"{name}: {rounds[ROUNDS // 2]:.1f} us of processor time a delivery "
                  f"({rounds[0]:.1f} to {rounds[-1]:.1f})", flush=True)


if __name__ == "__main__":
    main()
