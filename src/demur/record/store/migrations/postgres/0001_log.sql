-- One row a leaf, in the order of the log. The envelope is {"payload":"base64 of payload" and then the rest, byte for byte as
-- it was sealed; the payload is kept decoded, a quarter smaller and readable as JSON.
CREATE TABLE demur.records (
    idx BIGINT PRIMARY KEY,
    payload BYTEA NOT NULL,
    rest BYTEA NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    session TEXT,
    seq BIGINT
);
-- Two writers cannot both continue a session, whatever they believe.
CREATE UNIQUE INDEX records_of_session ON demur.records (session, seq) WHERE session IS NOT NULL;
-- The perfect subtrees of the RFC 9162 tree; level 0 are the leaves.
CREATE TABLE demur.nodes (
    level INTEGER NOT NULL,
    idx BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (level, idx)
);
CREATE TABLE demur.checkpoints (
    size BIGINT PRIMARY KEY,
    note BYTEA NOT NULL
);
-- Keys that rotations on record have retired.
CREATE TABLE demur.retired_keys (
    key_id TEXT PRIMARY KEY,
    idx BIGINT NOT NULL
);
-- Passports counted by hour, so that rates do not read records; it can always be counted anew.
CREATE TABLE demur.rollup (
    hour TEXT NOT NULL,
    model TEXT NOT NULL,
    decision TEXT NOT NULL,
    causes TEXT NOT NULL,
    answered BOOLEAN NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (hour, model, decision, causes, answered)
);
CREATE TABLE demur.state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    origin TEXT NOT NULL,
    frontier BYTEA NOT NULL,
    writers INTEGER NOT NULL
);
