-- Snapshots that clients have taken, imported or named. A name keeps the content
-- of its snapshot. `tree` is NULL for a snapshot without files.
CREATE TABLE snapshots (
    tenant BLOB NOT NULL REFERENCES tenants (id),
    id BLOB NOT NULL CHECK (length(id) = 32),
    tree BLOB CHECK (length(tree) = 32),
    workspace TEXT,
    api_key TEXT NOT NULL,
    agent TEXT,
    message TEXT NOT NULL,
    name TEXT,
    created INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX snapshots_by_name ON snapshots (tenant, name)
    WHERE name IS NOT NULL;

CREATE INDEX snapshots_by_age ON snapshots (tenant, created, id);

CREATE INDEX snapshots_by_agent ON snapshots (tenant, agent, created, id)
    WHERE agent IS NOT NULL;

CREATE INDEX snapshots_by_workspace ON snapshots (tenant, workspace, created, id)
    WHERE workspace IS NOT NULL;
