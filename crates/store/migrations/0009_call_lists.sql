-- One index for all filters of records. A row lists the calls that were written
-- together and have a value in common, so that a commit of many calls with one
-- tool, caller and conversation adds three rows, not three for each call.

CREATE TABLE call_lists (
    tenant TEXT    NOT NULL,
    -- 0 conversation, 1 caller, 2 status (unless it succeeded), 3 tool
    field  INTEGER NOT NULL,
    value  TEXT    NOT NULL,
    -- the largest id when the row was written
    newest BLOB    NOT NULL,
    -- 16 bytes each; all received within a minute before the newest
    ids    BLOB    NOT NULL,
    PRIMARY KEY (tenant, field, value, newest)
) STRICT, WITHOUT ROWID;

INSERT INTO call_lists
    SELECT tenant, 0, conversation, id, id FROM calls INDEXED BY calls_by_conversation
    WHERE conversation IS NOT NULL ORDER BY tenant, conversation, id;
INSERT INTO call_lists
    SELECT tenant, 1, caller_id, id, id FROM calls INDEXED BY calls_by_caller
    WHERE caller_id IS NOT NULL ORDER BY tenant, caller_id, id;
INSERT INTO call_lists
    SELECT tenant, 2, CAST(status AS TEXT), id, id FROM calls INDEXED BY calls_by_failure
    WHERE status <> 0 ORDER BY tenant, status, id;
INSERT INTO call_lists
    SELECT tenant, 3, tool, id, id FROM calls INDEXED BY calls_by_tool ORDER BY tenant, tool, id;

DROP INDEX calls_by_conversation;
DROP INDEX calls_by_caller;
DROP INDEX calls_by_failure;
DROP INDEX calls_by_tool;
