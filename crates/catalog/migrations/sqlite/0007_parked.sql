-- When a parked workspace is deleted; NULL where it is not.
ALTER TABLE workspaces ADD COLUMN expires INTEGER;

CREATE INDEX workspaces_by_expiry ON workspaces (expires, id)
    WHERE state = 'parked';

-- A workspace is in at most one sandbox.
CREATE UNIQUE INDEX sandboxes_by_workspace ON sandboxes (tenant, workspace);
