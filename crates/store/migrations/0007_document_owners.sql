-- The key that made a document, so that a key has quotas of its own. Nobody
-- knows it of what was kept before.
ALTER TABLE documents ADD COLUMN owner TEXT;

CREATE INDEX documents_by_owner ON documents (space, tenant, owner)
    WHERE owner IS NOT NULL;
