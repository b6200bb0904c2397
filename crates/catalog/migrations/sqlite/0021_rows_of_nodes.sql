-- The node that a sandbox runs on and that has the files of a workspace, and how
-- often the record has got a node. Earlier records belong to the first node.
ALTER TABLE sandboxes ADD COLUMN node INTEGER NOT NULL DEFAULT 1;
ALTER TABLE sandboxes ADD COLUMN generation INTEGER NOT NULL DEFAULT 1
    CHECK (generation > 0);

ALTER TABLE workspaces ADD COLUMN node INTEGER NOT NULL DEFAULT 1;
ALTER TABLE workspaces ADD COLUMN generation INTEGER NOT NULL DEFAULT 1
    CHECK (generation > 0);

-- The files of a parked workspace in the store; NULL where the registry of its
-- node alone knows them.
ALTER TABLE workspaces ADD COLUMN files_origin BLOB CHECK (length(files_origin) = 32);
ALTER TABLE workspaces ADD COLUMN files_base BLOB CHECK (length(files_base) = 32);
ALTER TABLE workspaces ADD COLUMN files_home BLOB CHECK (length(files_home) = 32);
ALTER TABLE workspaces ADD COLUMN files_limit INTEGER;

-- A node looks only for its own records that have expired.
DROP INDEX sandboxes_by_expiry;
CREATE INDEX sandboxes_by_expiry ON sandboxes (node, expires, id) WHERE removing = 0;
DROP INDEX workspaces_by_expiry;
CREATE INDEX workspaces_by_expiry ON workspaces (node, expires, id)
    WHERE state = 'parked';

-- The walks of a node over its own records.
CREATE INDEX sandboxes_by_node ON sandboxes (node, created, id);
CREATE INDEX workspaces_by_node ON workspaces (node, created, id);
