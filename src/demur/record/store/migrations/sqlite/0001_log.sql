-- One row a leaf, in the order of the log. The envelope is {"payload":"base64 of payload" and then the rest, byte for byte as
-- it was sealed; the payload is kept decoded, a quarter smaller and readable as JSON.
CREATE TABLE records (
    idx INTEGER PRIMARY KEY,
    payload BLOB NOT NULL,
    rest BLOB NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    session TEXT,
    seq INTEGER
);
-- Two writers cannot both continue a session, whatever they believe.
CREATE UNIQUE INDEX records_of_session ON records (session, seq) WHERE session IS NOT NULL;
-- The perfect subtrees of the RFC 9162 tree; level 0 are the leaves.
CREATE TABLE nodes (
    level INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (level, idx)
) WITHOUT ROWID;
CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY,
    note BLOB NOT NULL
);
-- Keys that rotations on record have retired.
CREATE TABLE retired_keys (
    key_id TEXT PRIMARY KEY,
    idx INTEGER NOT NULL
) WITHOUT ROWID;
-- Passports counted by hour, so that rates do not read records; it can always be counted anew.
CREATE TABLE rollup (
    hour TEXT NOT NULL,
    model TEXT NOT NULL,
    decision TEXT NOT NULL,
    causes TEXT NOT NULL,
    answered INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (hour, model, decision, causes, answered)
) WITHOUT ROWID;
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    origin TEXT NOT NULL,
    frontier BLOB NOT NULL,
    writers INTEGER NOT NULL
);
