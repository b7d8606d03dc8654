-- The key that made a document, so that a key has quotas of its own. Nobody
-- knows it of what was kept before.
ALTER TABLE windlass.documents ADD COLUMN owner text COLLATE "C";

CREATE INDEX documents_by_owner ON windlass.documents (space, tenant, owner)
    WHERE owner IS NOT NULL;
