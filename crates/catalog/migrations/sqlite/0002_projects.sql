-- Snapshots are the thirty-two bytes of their hash. Paths are the bytes of
-- their names with NUL between them, so that they sort as a walk of the tree
-- meets them; entries are encoded as `stored.rs` says.

CREATE TABLE projects (
    id TEXT NOT NULL PRIMARY KEY,
    tenant BLOB NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    description TEXT,
    head BLOB NOT NULL CHECK (length(head) = 32),
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    policy_version INTEGER NOT NULL CHECK (policy_version >= 0),
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    removing INTEGER NOT NULL CHECK (removing IN (0, 1)),
    UNIQUE (tenant, id),
    UNIQUE (tenant, name)
) STRICT;

-- Lists, newest first.
CREATE INDEX projects_by_age ON projects (created, id);
CREATE INDEX projects_by_tenant ON projects (tenant, created, id);

-- Beside their projects, because a row is rewritten whole when a head moves.
CREATE TABLE policies (
    project TEXT NOT NULL PRIMARY KEY REFERENCES projects (id),
    policy TEXT NOT NULL
) STRICT;

CREATE TABLE workspaces (
    id TEXT NOT NULL PRIMARY KEY,
    tenant BLOB NOT NULL REFERENCES tenants (id),
    project TEXT,
    agent TEXT,
    api_key TEXT NOT NULL,
    name TEXT,
    base BLOB NOT NULL CHECK (length(base) = 32),
    synced BLOB NOT NULL CHECK (length(synced) = 32),
    merges INTEGER NOT NULL CHECK (merges >= 0),
    sync TEXT NOT NULL,
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
    follows INTEGER NOT NULL CHECK (follows IN (0, 1)),
    state TEXT NOT NULL,
    last_merge INTEGER,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    -- Not checked where there is no project, or no agent.
    FOREIGN KEY (tenant, project) REFERENCES projects (tenant, id),
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id),
    FOREIGN KEY (tenant, api_key) REFERENCES api_keys (tenant, id)
) STRICT;

CREATE INDEX workspaces_by_age ON workspaces (created, id);
CREATE INDEX workspaces_by_tenant ON workspaces (tenant, created, id);
CREATE INDEX workspaces_by_project ON workspaces (tenant, project, created, id);
CREATE INDEX workspaces_by_agent ON workspaces (tenant, agent, created, id);
-- The walk over all snapshots that must stay.
CREATE INDEX workspaces_by_id ON workspaces (tenant, id);

-- The log: every move of a head.
CREATE TABLE landings (
    project TEXT NOT NULL REFERENCES projects (id),
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    snapshot BLOB NOT NULL CHECK (length(snapshot) = 32),
    parent BLOB NOT NULL CHECK (length(parent) = 32),
    kind TEXT NOT NULL,
    agent TEXT,
    workspace TEXT,
    api_key TEXT NOT NULL,
    message TEXT NOT NULL,
    request TEXT,
    counts TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (project, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX landings_by_snapshot ON landings (project, snapshot, sequence);
CREATE UNIQUE INDEX landings_by_request ON landings (project, request)
    WHERE request IS NOT NULL;

-- Requests of steps that were held for review as a whole, and are not in the
-- log.
CREATE TABLE held_requests (
    project TEXT NOT NULL REFERENCES projects (id),
    request TEXT NOT NULL,
    head BLOB NOT NULL CHECK (length(head) = 32),
    PRIMARY KEY (project, request)
) STRICT, WITHOUT ROWID;

-- What landings did to paths. `whole` is 1 where it is about all that is below
-- the path too.
CREATE TABLE versions (
    project TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    path BLOB NOT NULL,
    kind TEXT NOT NULL,
    origin BLOB,
    entry_before BLOB,
    entry_after BLOB,
    files INTEGER NOT NULL CHECK (files >= 0),
    whole INTEGER NOT NULL CHECK (whole IN (0, 1)),
    algorithm TEXT NOT NULL,
    PRIMARY KEY (project, sequence, path),
    FOREIGN KEY (project, sequence) REFERENCES landings (project, sequence)
) STRICT, WITHOUT ROWID;

-- The history of a path.
CREATE INDEX versions_by_path ON versions (project, path, sequence);

CREATE TABLE reviews (
    id TEXT NOT NULL PRIMARY KEY,
    tenant BLOB NOT NULL REFERENCES tenants (id),
    project TEXT NOT NULL,
    workspace TEXT,
    agent TEXT,
    path BLOB NOT NULL,
    kind TEXT NOT NULL,
    base BLOB,
    ours BLOB,
    theirs BLOB,
    base_snapshot BLOB NOT NULL CHECK (length(base_snapshot) = 32),
    ours_snapshot BLOB NOT NULL CHECK (length(ours_snapshot) = 32),
    theirs_snapshot BLOB NOT NULL CHECK (length(theirs_snapshot) = 32),
    algorithm TEXT NOT NULL,
    state TEXT NOT NULL,
    detail TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    closed INTEGER,
    closed_by TEXT,
    resolution TEXT,
    successor TEXT,
    reopened INTEGER NOT NULL CHECK (reopened >= 0),
    FOREIGN KEY (tenant, project) REFERENCES projects (tenant, id)
) STRICT;

-- One open review for a workspace and a path.
CREATE UNIQUE INDEX reviews_open_of_workspace ON reviews (workspace, path)
    WHERE state = 'open';
-- Lists, oldest first. Most are of open reviews, and few reviews are open.
CREATE INDEX reviews_open ON reviews (tenant, created, id) WHERE state = 'open';
CREATE INDEX reviews_open_of_project ON reviews (tenant, project, created, id)
    WHERE state = 'open';
CREATE INDEX reviews_by_tenant ON reviews (tenant, created, id);
CREATE INDEX reviews_by_project ON reviews (tenant, project, created, id);
CREATE INDEX reviews_by_workspace ON reviews (workspace, created, id);
CREATE INDEX reviews_by_expiry ON reviews (expires, id) WHERE state = 'open';
CREATE INDEX reviews_open_by_id ON reviews (tenant, id) WHERE state = 'open';
