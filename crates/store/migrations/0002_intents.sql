-- What calls are about to do, the keys that make calls one, and how many
-- records there are.

ALTER TABLE calls ADD COLUMN error_feedback TEXT;
-- JSON; most calls have none.
ALTER TABLE calls ADD COLUMN details TEXT;

-- One row for each call that may take effect and has no record yet. `owner` is
-- the process that runs it, so that another one can tell when it is gone. The
-- table is as small as the number of calls that run, so nothing but the key
-- is indexed.
CREATE TABLE intents (
    tenant          TEXT    NOT NULL,
    id              BLOB    NOT NULL,
    call_ref        TEXT,
    tool            TEXT    NOT NULL,
    user            TEXT,
    caller_id       TEXT,
    caller_type     TEXT    NOT NULL,
    conversation    TEXT,
    workflow        TEXT,
    parent          BLOB,
    owner           BLOB    NOT NULL,
    idempotency_key TEXT,
    created_us      INTEGER NOT NULL,
    arguments       TEXT    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- One row for each key that a call has claimed.
CREATE TABLE keys (
    tenant      TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    id          BLOB    NOT NULL,
    -- when it was claimed
    created_us  INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

-- Keys go by their age, and with the records of their calls.
CREATE INDEX keys_by_age ON keys (created_us);
CREATE INDEX keys_by_call ON keys (tenant, id);

-- One row: how many calls there are, so that nobody has to count them.
CREATE TABLE record_total (
    records INTEGER NOT NULL
) STRICT;

INSERT INTO record_total (records) SELECT count(*) FROM calls;
