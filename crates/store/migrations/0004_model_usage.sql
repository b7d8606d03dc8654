-- What models took to answer, kept by the writer with every commit.
CREATE TABLE model_usage (
    tenant             TEXT    NOT NULL,
    tool               TEXT    NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_usd           REAL    NOT NULL,
    PRIMARY KEY (tenant, tool)
) STRICT, WITHOUT ROWID;
