CREATE TEMP TABLE n AS
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
SELECT i, printf('01a22c53-%04x-7000-8000-000000000000', i) AS id FROM n;

-- One a millisecond from 0x01a22c530001 on. Some of everything, and a few of what is rare.
INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, settled_at_ms,
                        settled_by, overdue, told)
SELECT id, iif(i % 3, 'batches/n', 'models/veo/operations/n') || i, 'n' || i, iif(i % 3, 'batch', 'video'),
       iif(i % 4001, 'nightly', 'rare'), 1, iif(i % 5, 'succeeded', 'pending'), i,
       iif(i % 5, i, NULL), iif(i % 5, iif(i % 5003, 'webhook', 'operator'), NULL), i % 2005 = 0,
       iif(i % 5, iif(i % 7, 'webhook', 'rescued'), 'undecided') FROM n;

INSERT INTO captured_events (id, source, received_at_ms, verdict, event_type, operation, segment, proof, headers, body)
SELECT id, iif(i % 6007, 'gemini', 'other'), i, iif(i % 100, 'accepted', 'ignored'),
       iif(i % 3, 'batch.succeeded', 'video.generated'), iif(i % 3, 'batches/n', 'models/veo/operations/n') || i,
       'n' || i, 'hmac', '[]', x'7b7d' FROM n;

INSERT INTO work_queue (ref_key, raw, segment, reason, fresh, state, created_at_ms, available_at_ms, finished_at_ms)
SELECT 'batches/n' || i, 'batches/n' || i, 'n' || i, iif(i % 6007, 'webhook', 'operator'), 1,
       iif(i % 9, 'done', 'dead'), i, i, i FROM n;

INSERT INTO effects (id, operation_id, operation_name, effect, cause, idempotency_key, payload, state, planned_at_ms,
                     next_attempt_at_ms, give_up_at_ms, finished_at_ms)
SELECT id, id, iif(i % 3, 'batches/n', 'models/veo/operations/n') || i, iif(i % 6007, 'notify', 'page'), 'succeeded',
       'key-' || i, x'7b7d', iif(i % 9, 'done', 'dead'), i, i, i, i FROM n;
