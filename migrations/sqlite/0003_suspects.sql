-- How many deaths of the process an item was in hand at. From the second on it is a suspect, and of
-- the suspects one is in hand at a time.
ALTER TABLE work_queue ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX work_queue_suspects ON work_queue (state, available_at_ms, id) WHERE crashes >= 2;
