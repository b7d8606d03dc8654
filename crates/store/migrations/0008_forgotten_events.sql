-- The last event of each tenant that was deleted, because there were too many:
-- whoever resumes before it has missed events.
CREATE TABLE forgotten_events (
    tenant   TEXT    PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Up to now, the oldest of all tenants were deleted.
INSERT INTO forgotten_events (tenant, position)
SELECT DISTINCT tenant, (SELECT min(position) FROM events) - 1 FROM events;
