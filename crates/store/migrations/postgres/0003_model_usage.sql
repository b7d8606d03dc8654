-- What models took to answer, kept with every commit.
CREATE TABLE windlass.model_usage (
    tenant             text COLLATE "C" NOT NULL,
    tool               text COLLATE "C" NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_usd           double precision NOT NULL,
    PRIMARY KEY (tenant, tool)
) WITH (fillfactor = 50);
