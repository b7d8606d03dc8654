-- Calls, their statistics, and results that were too large for a model.

-- One row a call. The key begins with the tenant, so that no question can
-- touch the rows of another one; ids are UUIDv7, so a tenant's rows lie in the
-- order of time. Large columns come last: a filter never reads past them.
CREATE TABLE calls (
    tenant        TEXT    NOT NULL,
    id            BLOB    NOT NULL,
    call_ref      TEXT,
    tool          TEXT    NOT NULL,
    user          TEXT,
    caller_id     TEXT,
    caller_type   TEXT    NOT NULL,
    conversation  TEXT,
    workflow      TEXT,
    parent        BLOB,
    -- 0 succeeded, 1 failed, 2 refused, 3 timed out, 4 cancelled, 5 interrupted
    status        INTEGER NOT NULL,
    error_kind    TEXT,
    error_message TEXT,
    attempts      INTEGER NOT NULL,
    queue_us      INTEGER NOT NULL,
    run_us        INTEGER NOT NULL,
    created_us    INTEGER NOT NULL,
    arguments     TEXT    NOT NULL,
    result        TEXT,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX calls_by_tool ON calls (tenant, tool, id);
CREATE INDEX calls_by_conversation ON calls (tenant, conversation, id)
    WHERE conversation IS NOT NULL;
CREATE INDEX calls_by_caller ON calls (tenant, caller_id, id)
    WHERE caller_id IS NOT NULL;
-- Most calls succeed, so this one is small.
CREATE INDEX calls_by_failure ON calls (tenant, status, id)
    WHERE status <> 0;

-- Counts by run-time bucket, kept by the writer with every commit: statistics
-- over a million calls read a few hundred rows.
CREATE TABLE call_stats (
    tenant TEXT    NOT NULL,
    tool   TEXT    NOT NULL,
    status INTEGER NOT NULL,
    -- of the run time; -1 for calls that never ran
    bucket INTEGER NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (tenant, tool, status, bucket)
) STRICT, WITHOUT ROWID;

-- `seq` is the age: the smallest goes first when there is no more room.
CREATE TABLE outputs (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT    NOT NULL,
    id         BLOB    NOT NULL,
    created_us INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    bytes      BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX outputs_by_id ON outputs (tenant, id);

-- One row: the bytes of all outputs together, so that nobody has to add them up.
CREATE TABLE output_total (
    bytes INTEGER NOT NULL
) STRICT;

INSERT INTO output_total (bytes) VALUES (0);
