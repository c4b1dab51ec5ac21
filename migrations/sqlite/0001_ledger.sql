-- Times are milliseconds since the Unix epoch, except lease_until_ms: monotonic milliseconds of the
-- running process, void at start-up. Every state column is checked; every query has its index.
--
-- A partial index serves a query only if its condition stands in the query, word for word: SQLite does
-- not see that state = 'ready' implies state IN ('ready', 'leased'), nor that a bound value does.

CREATE TABLE captured_events (
    id             TEXT    NOT NULL PRIMARY KEY,
    source         TEXT    NOT NULL,
    received_at_ms INTEGER NOT NULL,
    verdict        TEXT    NOT NULL CHECK (verdict IN ('accepted', 'ignored')),
    why            TEXT,
    event_type     TEXT,
    operation      TEXT,
    segment        TEXT,
    webhook_id     TEXT,
    dedupe_key     TEXT,
    proof          TEXT    NOT NULL,
    reservation    TEXT,
    replay_of      TEXT,
    user_metadata  TEXT,
    headers        TEXT    NOT NULL,
    body           BLOB    NOT NULL,
    emptied_at_ms  INTEGER
) STRICT;
CREATE INDEX captured_events_age ON captured_events (received_at_ms);
CREATE INDEX captured_events_bodies ON captured_events (received_at_ms) WHERE emptied_at_ms IS NULL;
CREATE INDEX captured_events_operation ON captured_events (segment, id) WHERE segment IS NOT NULL;

CREATE TABLE processed_events (
    source         TEXT    NOT NULL,
    dedupe_key     TEXT    NOT NULL,
    event_id       TEXT    NOT NULL,
    received_at_ms INTEGER NOT NULL,
    outcome        TEXT    NOT NULL CHECK (outcome IN ('accepted', 'ignored')),
    duplicates     INTEGER NOT NULL DEFAULT 0,
    expires_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (source, dedupe_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX processed_events_expiry ON processed_events (expires_at_ms);

-- ref_key is the operation's full name when it is known, else the short id as it came.
CREATE TABLE work_queue (
    id              INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    ref_key         TEXT    NOT NULL,
    raw             TEXT    NOT NULL,
    segment         TEXT    NOT NULL,
    kind_hint       TEXT,
    reservation     TEXT,
    event_id        TEXT,
    reason          TEXT    NOT NULL CHECK (reason IN ('webhook', 'reconcile', 'register', 'replay', 'operator')),
    fresh           INTEGER NOT NULL CHECK (fresh IN (0, 1)),
    state           TEXT    NOT NULL CHECK (state IN ('ready', 'leased', 'done', 'dead')),
    created_at_ms   INTEGER NOT NULL,
    available_at_ms INTEGER NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    failures        INTEGER NOT NULL DEFAULT 0,
    lease_epoch     INTEGER NOT NULL DEFAULT 0,
    lease_until_ms  INTEGER,
    outcome         TEXT,
    last_error      TEXT,
    finished_at_ms  INTEGER,
    CHECK ((state = 'leased') = (lease_until_ms IS NOT NULL)),
    CHECK ((state IN ('done', 'dead')) = (finished_at_ms IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX work_queue_one_ready ON work_queue (ref_key) WHERE state = 'ready';
CREATE INDEX work_queue_due ON work_queue (fresh, available_at_ms, id) WHERE state = 'ready';
CREATE INDEX work_queue_open_segment ON work_queue (segment) WHERE state IN ('ready', 'leased');
CREATE INDEX work_queue_leased ON work_queue (lease_until_ms) WHERE state = 'leased';
CREATE INDEX work_queue_done ON work_queue (finished_at_ms) WHERE state = 'done';
CREATE INDEX work_queue_open ON work_queue (state, id) WHERE state <> 'done';

CREATE TABLE operations (
    id                 TEXT    NOT NULL PRIMARY KEY,
    name               TEXT    UNIQUE,
    segment            TEXT,
    kind               TEXT    NOT NULL CHECK (kind IN ('batch', 'video', 'interaction', 'operation', 'unknown')),
    job_kind           TEXT    NOT NULL,
    registered         INTEGER NOT NULL CHECK (registered IN (0, 1)),
    state              TEXT    NOT NULL CHECK (state IN ('reserved', 'pending', 'succeeded', 'failed', 'cancelled',
                           'expired', 'filtered', 'incomplete', 'budget_exceeded', 'gone', 'anomalous')),
    requires_action    INTEGER NOT NULL DEFAULT 0 CHECK (requires_action IN (0, 1)),
    overdue            INTEGER NOT NULL DEFAULT 0 CHECK (overdue IN (0, 1)),
    submitted_at_ms    INTEGER NOT NULL,
    registered_at_ms   INTEGER,
    settled_at_ms      INTEGER,
    closed_at_ms       INTEGER,
    settled_by         TEXT    CHECK (settled_by IN ('webhook', 'reconcile', 'register', 'replay', 'operator')),
    attempts           INTEGER NOT NULL DEFAULT 0,
    looks_since_event  INTEGER,
    next_check_at_ms   INTEGER,
    overdue_at_ms      INTEGER,
    deadline_at_ms     INTEGER,
    not_found_since_ms INTEGER,
    neither_looks      INTEGER NOT NULL DEFAULT 0,
    told               TEXT    NOT NULL DEFAULT 'undecided'
                           CHECK (told IN ('undecided', 'webhook', 'rescued', 'late', 'no_event')),
    decide_at_ms       INTEGER,
    effects_expected   INTEGER,
    -- An ending that the next look finds gets no effects: it may have had them (import, restore).
    effects_withheld   INTEGER NOT NULL DEFAULT 0 CHECK (effects_withheld IN (0, 1)),
    user_metadata      TEXT,
    summary            TEXT,
    body_hash          TEXT,
    CHECK ((state = 'reserved') = (name IS NULL)),
    CHECK ((name IS NULL) = (segment IS NULL)),
    CHECK ((state IN ('succeeded', 'failed', 'cancelled', 'expired', 'filtered', 'incomplete', 'budget_exceeded'))
           = (settled_at_ms IS NOT NULL)),
    CHECK ((settled_at_ms IS NULL) = (settled_by IS NULL)),
    CHECK ((state IN ('gone', 'anomalous')) = (closed_at_ms IS NOT NULL))
) STRICT;
CREATE INDEX operations_segment ON operations (segment, id) WHERE segment IS NOT NULL;
CREATE INDEX operations_state ON operations (state, id);
CREATE INDEX operations_due ON operations (next_check_at_ms) WHERE next_check_at_ms IS NOT NULL;
CREATE INDEX operations_overdue ON operations (overdue_at_ms) WHERE overdue_at_ms IS NOT NULL;
CREATE INDEX operations_late ON operations (id) WHERE overdue = 1;
CREATE INDEX operations_decide ON operations (decide_at_ms) WHERE decide_at_ms IS NOT NULL;
CREATE INDEX operations_settled ON operations (settled_at_ms, id) WHERE settled_at_ms IS NOT NULL;
CREATE INDEX operations_closed ON operations (closed_at_ms) WHERE closed_at_ms IS NOT NULL;
CREATE INDEX operations_unplanned ON operations (id) WHERE settled_at_ms IS NOT NULL AND effects_expected IS NULL;

-- Settled is settled: the last line of defence, below every caller.
CREATE TRIGGER operations_settled_once
BEFORE UPDATE OF id, name, state, settled_at_ms, settled_by, body_hash ON operations
WHEN OLD.settled_at_ms IS NOT NULL
     AND (NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.state IS NOT OLD.state
          OR NEW.settled_at_ms IS NOT OLD.settled_at_ms OR NEW.settled_by IS NOT OLD.settled_by
          OR NEW.body_hash IS NOT OLD.body_hash)
BEGIN
    SELECT RAISE(ABORT, 'a settled operation never changes');
END;
-- INSERT OR REPLACE deletes without a trigger.
CREATE TRIGGER operations_settled_stays BEFORE INSERT ON operations
WHEN EXISTS (SELECT 1 FROM operations WHERE id = NEW.id AND settled_at_ms IS NOT NULL)
     OR EXISTS (SELECT 1 FROM operations WHERE name = NEW.name AND settled_at_ms IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'a settled operation never changes');
END;

CREATE TABLE operation_log (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    operation_id TEXT    NOT NULL,
    at_ms        INTEGER NOT NULL,
    what         TEXT    NOT NULL,
    cause        TEXT    NOT NULL,
    detail       TEXT
) STRICT;
CREATE INDEX operation_log_operation ON operation_log (operation_id, id);

-- The outbox: side effects of operations, and alerts (operation_id NULL).
CREATE TABLE effects (
    id                 TEXT    NOT NULL PRIMARY KEY,
    operation_id       TEXT    REFERENCES operations (id) ON DELETE CASCADE,
    operation_name     TEXT,
    effect             TEXT    NOT NULL,
    cause              TEXT    NOT NULL,
    idempotency_key    TEXT    NOT NULL UNIQUE,
    payload            BLOB    NOT NULL,
    state              TEXT    NOT NULL CHECK (state IN ('planned', 'sending', 'done', 'ambiguous', 'held', 'dead')),
    planned_at_ms      INTEGER NOT NULL,
    next_attempt_at_ms INTEGER NOT NULL,
    give_up_at_ms      INTEGER NOT NULL,
    attempts           INTEGER NOT NULL DEFAULT 0,
    lease_epoch        INTEGER NOT NULL DEFAULT 0,
    lease_until_ms     INTEGER,
    finished_at_ms     INTEGER,
    last_error         TEXT,
    CHECK ((state = 'sending') = (lease_until_ms IS NOT NULL))
) STRICT;
CREATE INDEX effects_due ON effects (next_attempt_at_ms) WHERE state IN ('planned', 'ambiguous');
CREATE INDEX effects_due_by_name ON effects (effect, next_attempt_at_ms) WHERE state IN ('planned', 'ambiguous');
CREATE INDEX effects_sending ON effects (lease_until_ms) WHERE state = 'sending';
CREATE INDEX effects_open ON effects (state, id) WHERE state <> 'done';
CREATE INDEX effects_operation ON effects (operation_id, id) WHERE operation_id IS NOT NULL;
CREATE INDEX effects_alerts ON effects (planned_at_ms) WHERE operation_id IS NULL;

CREATE TABLE alerts (
    subject         TEXT    NOT NULL PRIMARY KEY,
    state           TEXT    NOT NULL CHECK (state IN ('open', 'recovered')),
    summary         TEXT    NOT NULL,
    opened_at_ms    INTEGER NOT NULL,
    recovered_at_ms INTEGER,
    CHECK ((state = 'recovered') = (recovered_at_ms IS NOT NULL))
) STRICT;
CREATE INDEX alerts_open ON alerts (opened_at_ms) WHERE state = 'open';
CREATE INDEX alerts_recovered ON alerts (recovered_at_ms) WHERE state = 'recovered';

CREATE TABLE tombstones (
    name_hash     TEXT    NOT NULL PRIMARY KEY,
    state         TEXT    NOT NULL,
    settled_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_expiry ON tombstones (expires_at_ms);

-- Written by the readiness probe, through the same writer as everything else.
CREATE TABLE heartbeat (
    id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO heartbeat (id, at_ms) VALUES (1, 0);
