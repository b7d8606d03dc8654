-- What is written to find out whether anything can be written. It always has
-- one row; what is in it means nothing.
CREATE TABLE write_probe (
    filler BLOB NOT NULL
) STRICT;

INSERT INTO write_probe (filler) VALUES (x'');
