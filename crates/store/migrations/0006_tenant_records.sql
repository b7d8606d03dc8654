-- How many records each tenant has, so that the one with the most makes room
-- when there is none.
CREATE TABLE tenant_records (
    tenant  TEXT    PRIMARY KEY,
    records INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tenant_records_by_size ON tenant_records (records);

INSERT INTO tenant_records (tenant, records) SELECT tenant, count(*) FROM calls GROUP BY tenant;
