-- The pairs that a client labels a sandbox with, as a JSON object.
ALTER TABLE sandboxes ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';

-- The same pairs, one row for each, to find the sandboxes with a pair.
CREATE TABLE sandbox_metadata (
    tenant BLOB NOT NULL CHECK (length(tenant) = 16),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, key, value, sandbox)
) STRICT, WITHOUT ROWID;

CREATE INDEX sandbox_metadata_by_sandbox ON sandbox_metadata (sandbox);
