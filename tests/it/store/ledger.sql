CREATE TEMP TABLE n AS
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) SELECT i FROM n;

INSERT INTO captured_events (id, source, received_at_ms, verdict, operation, segment, dedupe_key, proof, headers, body)
SELECT printf('event-%06d', i), 'gemini', i, 'accepted', 'batches/' || i, i, 'id:' || i, 'hmac', '[]', x'7b7d' FROM n;

INSERT INTO processed_events (source, dedupe_key, event_id, received_at_ms, outcome, expires_at_ms)
SELECT 'gemini', 'id:' || i, printf('event-%06d', i), i, 'accepted', i + 100 FROM n;

-- Of a hundred, ninety are done, one is dead, one leased, eight wait.
INSERT INTO work_queue (ref_key, raw, segment, reason, fresh, state, created_at_ms, available_at_ms, lease_until_ms, finished_at_ms)
SELECT 'batches/' || i, 'batches/' || i, i, iif(i % 2, 'webhook', 'reconcile'), i % 2,
       iif(i % 100 < 90, 'done', iif(i % 100 = 90, 'dead', iif(i % 100 = 91, 'leased', 'ready'))),
       i, i, iif(i % 100 = 91, i, NULL), iif(i % 100 <= 90, i, NULL) FROM n;

-- Of a hundred, ninety have settled, eight are pending, two are gone.
INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, registered_at_ms,
                        settled_at_ms, settled_by, closed_at_ms, next_check_at_ms, overdue_at_ms, decide_at_ms,
                        overdue, effects_expected)
SELECT printf('operation-%06d', i), 'batches/' || i, i, 'batch', 'nightly', 1,
       iif(i % 100 < 90, 'succeeded', iif(i % 100 < 98, 'pending', 'gone')), i, i,
       iif(i % 100 < 90, i, NULL), iif(i % 100 < 90, 'webhook', NULL), iif(i % 100 >= 98, i, NULL),
       iif(i % 100 >= 90, i, NULL), iif(i % 100 BETWEEN 90 AND 97, i, NULL), iif(i % 100 = 1, i, NULL),
       i % 100 = 97, iif(i % 100 BETWEEN 1 AND 89, 1, NULL) FROM n;

INSERT INTO operation_log (operation_id, at_ms, what, cause)
SELECT printf('operation-%06d', i), i, 'pending', 'register' FROM n;

-- Of a hundred, ninety are done; each other state has some; every twentieth is an alert's.
INSERT INTO effects (id, operation_id, effect, cause, idempotency_key, payload, state, planned_at_ms,
                     next_attempt_at_ms, give_up_at_ms, lease_until_ms)
SELECT printf('effect-%06d', i), iif(i % 20, printf('operation-%06d', i), NULL), 'notify', 'succeeded', 'key-' || i, x'7b7d',
       CASE WHEN i % 100 < 90 THEN 'done' WHEN i % 100 < 94 THEN 'planned' WHEN i % 100 = 94 THEN 'ambiguous'
            WHEN i % 100 = 95 THEN 'held' WHEN i % 100 = 96 THEN 'dead' ELSE 'sending' END,
       i, i, i + 100, iif(i % 100 > 96, i, NULL) FROM n;

INSERT INTO alerts (subject, state, summary, opened_at_ms, recovered_at_ms)
SELECT 'operation/' || i, iif(i % 100, 'recovered', 'open'), 'late', i, iif(i % 100, i, NULL) FROM n;

INSERT INTO tombstones (name_hash, state, settled_at_ms, expires_at_ms)
SELECT printf('%064d', i), 'succeeded', i, i + 100 FROM n;
