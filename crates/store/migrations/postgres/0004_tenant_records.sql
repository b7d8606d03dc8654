-- How many records each tenant has, so that the one with the most makes room
-- when there is none.
CREATE TABLE windlass.tenant_records (
    tenant  text COLLATE "C" PRIMARY KEY,
    records bigint NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX tenant_records_by_size ON windlass.tenant_records (records);

INSERT INTO windlass.tenant_records (tenant, records)
    SELECT tenant, count(*) FROM windlass.calls GROUP BY tenant;
