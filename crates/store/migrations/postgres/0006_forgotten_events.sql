-- The last event of each tenant that was deleted, because there were too many:
-- whoever resumes before it has missed events.
CREATE TABLE windlass.forgotten_events (
    tenant   text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
);

-- Up to now, the oldest of all tenants were deleted.
INSERT INTO windlass.forgotten_events (tenant, position)
SELECT DISTINCT tenant, (SELECT min(position) FROM windlass.events) - 1 FROM windlass.events;
