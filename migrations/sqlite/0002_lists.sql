-- What lists are filtered by and no index served. Kept few: each costs every insert.
CREATE INDEX operations_job_kind ON operations (job_kind, id);
CREATE INDEX captured_events_ignored ON captured_events (id) WHERE verdict = 'ignored';
