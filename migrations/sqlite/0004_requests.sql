-- Requests that were sent with a key, so that a repetition is answered and not carried out again.
-- status is NULL while one is carried out, and for ever when the process died meanwhile.
CREATE TABLE requests (
    id            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    token         TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    fingerprint   TEXT    NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    status        INTEGER,
    content_type  TEXT,
    answer        BLOB,
    CHECK ((status IS NULL) = (answer IS NULL)),
    UNIQUE (token, key)
) STRICT;
CREATE INDEX requests_expiry ON requests (expires_at_ms);
