-- What a server keeps besides records: documents, and events that readers may
-- ask for again.
--
-- `tenant` is the tenant's id in a form of at most 1,000 bytes, so that it
-- fits into an index; `whole_tenant` is the id itself where that is longer.

CREATE TABLE windlass.documents (
    space        text COLLATE "C" NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    whole_tenant text,
    id           text COLLATE "C" NOT NULL,
    alias        text COLLATE "C",
    version      bigint NOT NULL,
    updated_us   bigint NOT NULL,
    expires_us   bigint,
    -- JSON as text: `jsonb` would sort keys and round numbers.
    body         text   NOT NULL,
    PRIMARY KEY (space, tenant, id)
);

CREATE UNIQUE INDEX documents_by_alias ON windlass.documents (space, alias)
    WHERE alias IS NOT NULL;
CREATE INDEX documents_by_end ON windlass.documents (expires_us)
    WHERE expires_us IS NOT NULL;

-- Positions are given out by the total `events`, whose row is locked until the
-- events that they belong to are committed. So they have no gaps, and whoever
-- has seen one never sees a smaller one appear.
CREATE TABLE windlass.events (
    position     bigint PRIMARY KEY,
    tenant       text COLLATE "C" NOT NULL,
    whole_tenant text,
    conversation text COLLATE "C",
    batch        text COLLATE "C",
    name         text   NOT NULL,
    body         text   NOT NULL
);

CREATE INDEX events_by_tenant ON windlass.events (tenant, position);
CREATE INDEX events_by_conversation ON windlass.events
    (tenant, left(conversation, 250), position) WHERE conversation IS NOT NULL;
CREATE INDEX events_by_batch ON windlass.events
    (tenant, left(batch, 250), position) WHERE batch IS NOT NULL;

INSERT INTO windlass.totals (name, value) VALUES ('events', 0);
