-- What a server keeps besides records: documents, and events that readers may
-- ask for again.

-- Large columns come last: a listing that looks for those that have not
-- expired does not read past them.
CREATE TABLE documents (
    space      TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    alias      TEXT,
    version    INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    expires_us INTEGER,
    body       TEXT    NOT NULL,
    PRIMARY KEY (space, tenant, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX documents_by_alias ON documents (space, alias)
    WHERE alias IS NOT NULL;
CREATE INDEX documents_by_end ON documents (expires_us)
    WHERE expires_us IS NOT NULL;

-- The last changes of documents, so that other processes hear of them.
-- `origin` is whoever made the change, and has no need to hear of it.
CREATE TABLE document_changes (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    origin BLOB    NOT NULL,
    space  TEXT    NOT NULL,
    tenant TEXT    NOT NULL,
    id     TEXT    NOT NULL
) STRICT;

-- Positions are never given twice, and have no gaps: there is one writer at a
-- time, and what is rolled back gives its position back.
CREATE TABLE events (
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant       TEXT    NOT NULL,
    conversation TEXT,
    batch        TEXT,
    name         TEXT    NOT NULL,
    body         TEXT    NOT NULL
) STRICT;

CREATE INDEX events_by_tenant ON events (tenant, position);
CREATE INDEX events_by_conversation ON events (tenant, conversation, position)
    WHERE conversation IS NOT NULL;
CREATE INDEX events_by_batch ON events (tenant, batch, position)
    WHERE batch IS NOT NULL;
