"""Files as years of use would leave them, written by SQL into a schema that the service has made."""

import sqlite3
import time

from . import parts

# An id like the service's: a UUID of version 7, whose text sorts by time.
ID = (
    "printf('%08x-%04x-7%03x-8%03x-%012x', (({at}) >> 16) & 0xffffffff, ({at}) & 0xffff, i & 0xfff, "
    "(i >> 12) & 0xfff, (i * 2654435761) & 0xffffffffffff)"
)
HEADERS = (
    '[["content-type","application/json"],["user-agent","hookledger-bench"],["webhook-id","msg_fill"],'
    '["webhook-timestamp","1769083200"],["webhook-signature","v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="]]'
)
BODY = (
    '{"type":"batch.succeeded","version":"v1","timestamp":"2026-01-22T12:00:00Z","data":{"id":"batches/fill",'
    '"output_file_uri":"files/batch-fill-000000"}}'
)


def now_ms():
    return int(time.time() * 1000)


def migrate(place, db):
    """Lets the service make the file."""
    for old in db.parent.glob(db.name + "*"):
        old.unlink()
    with parts.Service(place, db) as service:
        service.accepts(service.port)


def opened(db):
    connection = sqlite3.connect(db, isolation_level=None)
    for pragma in ("synchronous=OFF", "cache_size=-3000000", "temp_store=MEMORY", "locking_mode=EXCLUSIVE"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def numbers(count):
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "


def history(db, rows, at):
    """`rows` deliveries of the last six days, each with its dedupe row, its finished work item and its
    settled operation; every tenth operation with an effect. Nothing of it is due or over."""
    connection = opened(db)
    step = 6 * 86_400_000 / rows
    when = f"CAST({at - 6 * 86_400_000} + i * {step} AS INTEGER)"
    key = "printf('id:msg_%08x_%d', (i * 2654435761) & 0xffffffff, i)"
    one = ID.format(at=when)
    connection.execute("BEGIN")
    connection.execute(
        numbers(rows) + "INSERT INTO captured_events (id, source, received_at_ms, verdict, event_type, operation, "
        f"segment, webhook_id, dedupe_key, proof, headers, body) SELECT {one}, 'gemini', {when}, 'accepted', "
        f"'batch.succeeded', 'batches/fill-' || i, 'fill-' || i, substr({key}, 4), {key}, "
        "'shared_header+standard_webhooks', ?1, CAST(?2 AS BLOB) FROM n", (HEADERS, BODY))
    connection.execute(
        "INSERT INTO processed_events (source, dedupe_key, event_id, received_at_ms, outcome, expires_at_ms) "
        "SELECT source, dedupe_key, id, received_at_ms, 'accepted', received_at_ms + 604800000 "
        "FROM captured_events ORDER BY dedupe_key")
    connection.execute(
        "INSERT INTO work_queue (ref_key, raw, segment, kind_hint, event_id, reason, fresh, state, created_at_ms, "
        "available_at_ms, outcome, finished_at_ms) SELECT operation, operation, segment, 'batch', id, 'webhook', 1, "
        "'done', received_at_ms, received_at_ms, 'settled', received_at_ms FROM captured_events ORDER BY id")
    connection.execute(
        "INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, "
        "registered_at_ms, settled_at_ms, settled_by, attempts, told, effects_expected, body_hash) "
        "SELECT id, operation, segment, 'batch', 'nightly', 1, 'succeeded', received_at_ms, received_at_ms, "
        "received_at_ms, 'webhook', 1, 'webhook', 0, 'fill' FROM captured_events ORDER BY id")
    connection.execute("COMMIT")
    connection.close()


def house(db, operations, at):
    """What the operator's pages look into: `operations` of the last six days, two deliveries each, one in
    ten a video, one failed, every tenth with an effect that is done. Whatever the size, 50
    operations are pending, 50 work items and 50 effects dead, so that a page has as much to show."""
    connection = opened(db)
    step = 6 * 86_400_000 / operations
    when = f"CAST({at - 6 * 86_400_000} + i * {step} AS INTEGER)"
    one = ID.format(at=when)
    name = "iif(i % 10 = 3, 'models/veo-3.1-generate-preview/operations/fill-' || i, 'batches/fill-' || i)"
    state = f"iif(i > {operations} - 50, 'pending', iif(i % 10 = 7, 'failed', 'succeeded'))"
    connection.execute("BEGIN")
    connection.execute(
        numbers(operations) + ", o AS (SELECT i, "
        f"{one} AS id, {name} AS name, {when} AS at, {state} AS state FROM n) "
        "INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, "
        "registered_at_ms, settled_at_ms, settled_by, next_check_at_ms, overdue_at_ms, attempts, told, "
        "effects_expected, body_hash) SELECT id, name, 'fill-' || i, iif(i % 10 = 3, 'video', 'batch'), 'nightly', 1, "
        "state, at, at, iif(state = 'pending', NULL, at), iif(state = 'pending', NULL, 'webhook'), "
        f"iif(state = 'pending', {at} + 3000000, NULL), iif(state = 'pending', {at} + 21600000, NULL), 1, "
        "iif(state = 'pending', 'undecided', 'webhook'), iif(state = 'pending', NULL, i % 10 = 0), "
        "iif(state = 'pending', NULL, 'fill') FROM o")
    for turn in (1, 2):
        # The second delivery of each is a second later.
        event = ID.format(at=f"({when} + {1000 * (turn - 1)})").replace("2654435761", str(2654435761 + 2 * turn))
        key = f"printf('id:msg_{turn}_%08x_%d', (i * 2654435761) & 0xffffffff, i)"
        connection.execute(
            numbers(operations) + "INSERT INTO captured_events (id, source, received_at_ms, verdict, event_type, "
            f"operation, segment, webhook_id, dedupe_key, proof, headers, body) SELECT {event}, 'gemini', "
            f"{when} + {1000 * (turn - 1)}, 'accepted', iif(i % 10 = 3, 'video.generated', 'batch.succeeded'), {name}, "
            f"'fill-' || i, substr({key}, 4), {key}, 'shared_header+standard_webhooks', ?1, CAST(?2 AS BLOB) FROM n",
            (HEADERS, BODY))
    connection.execute(
        "INSERT INTO work_queue (ref_key, raw, segment, kind_hint, event_id, reason, fresh, state, created_at_ms, "
        "available_at_ms, outcome, finished_at_ms) SELECT operation, operation, segment, 'batch', id, 'webhook', 1, "
        "'done', received_at_ms, received_at_ms, 'settled', received_at_ms FROM captured_events ORDER BY id")
    connection.execute(
        "UPDATE work_queue SET state = 'dead', outcome = 'rejected', last_error = 'the API rejects the request' "
        "WHERE id > (SELECT max(id) - 50 FROM work_queue)")
    connection.execute(
        "INSERT INTO effects (id, operation_id, operation_name, effect, cause, idempotency_key, payload, state, "
        "planned_at_ms, next_attempt_at_ms, give_up_at_ms, attempts, finished_at_ms) SELECT id, id, name, 'notify', "
        "state, 'fill-' || id, CAST('{}' AS BLOB), 'done', settled_at_ms, settled_at_ms, settled_at_ms + 86400000, 1, "
        "settled_at_ms FROM operations WHERE effects_expected = 1 ORDER BY id")
    connection.execute(
        "UPDATE effects SET state = 'dead', last_error = 'HTTP 500' WHERE id IN "
        "(SELECT id FROM effects ORDER BY id DESC LIMIT 50)")
    connection.execute("COMMIT")
    connection.close()


def ready(db, count, at, prefix="ready"):
    """`count` work items that are due."""
    connection = opened(db)
    connection.execute(
        numbers(count) + "INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reason, fresh, state, created_at_ms, "
        f"available_at_ms) SELECT 'batches/{prefix}-' || i, 'batches/{prefix}-' || i, '{prefix}-' || i, 'batch', "
        f"'webhook', 1, 'ready', {at - 1000}, {at - 1000} FROM n")
    connection.close()


def pending(db, count, at, due, turns):
    """`count` pending operations: `due` of them in each of the next `turns` minutes, the others much
    later."""
    connection = opened(db)
    one = ID.format(at=f"{at} - {count} + i")
    connection.execute(
        numbers(count) + "INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, "
        f"registered_at_ms, next_check_at_ms, overdue_at_ms) SELECT {one}, 'batches/pending-' || i, 'pending-' || i, "
        f"'batch', 'nightly', 1, 'pending', {at - 60_000}, {at - 60_000}, "
        f"iif(i <= {due * turns}, {at} + ((i - 1) / {due}) * 60000 + 30000, {at} + 3000000 + i % 500000), "
        f"{at} + 21600000 FROM n")
    connection.close()


def registered(db, count, at, prefix):
    """`count` operations that somebody registered and whose deliveries are still to come."""
    connection = opened(db)
    one = ID.format(at=f"{at} - {count} + i")
    connection.execute(
        numbers(count) + "INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, "
        f"registered_at_ms, next_check_at_ms, overdue_at_ms, user_metadata) SELECT {one}, 'batches/{prefix}-' || (i - 1), "
        f"'{prefix}-' || (i - 1), 'batch', 'nightly', 1, 'pending', {at}, {at}, {at} + 3000000, {at} + 21600000, "
        "'{\"job\":\"42\"}' FROM n")
    connection.close()
