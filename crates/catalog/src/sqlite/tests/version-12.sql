-- A catalog as version 12 wrote it; never edited, except before the first release.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY,
    description TEXT NOT NULL,
    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL,
    checksum BLOB NOT NULL,
    execution_time BIGINT NOT NULL
);
INSERT INTO _sqlx_migrations VALUES(1,'catalog','2026-11-17 00:00:00',1,X'7aea1f8268132e24fd1c257dc8cc0138d7964379edd299bb59eac85ce7a9eaa35616433e58efc92e3a72e4cef61cfad6',1000000);
INSERT INTO _sqlx_migrations VALUES(2,'projects','2026-11-17 00:00:00',1,X'f50f162554850b51db3d574d5ecb5ff2626a4e1416122727f07429c609d3920aa234ccfcfba9b6a519121d7dc30cb02d',1000000);
INSERT INTO _sqlx_migrations VALUES(3,'retention','2026-11-17 00:00:00',1,X'4948c5749128bda7d67ef1e4c10545fd433b3c84c83a35406af5299f84b3d84ae8f9139cdf9c97dd5bcc163f1b819eaa',1000000);
INSERT INTO _sqlx_migrations VALUES(4,'tags','2026-11-17 00:00:00',1,X'f2712e29077d0deba16c3786a68457ea3990ec52d6873d38a0e0e0f39917d9cfac124f726cebd85172ff5a96aa971b83',1000000);
INSERT INTO _sqlx_migrations VALUES(5,'events','2026-11-17 00:00:00',1,X'9b7eb2ccd5db0fb2cea1c0b58717b97c5a0b75a464d9b6be43cde7c7d8d554945ba859fe996ac074a0954fc0a93ce21e',1000000);
INSERT INTO _sqlx_migrations VALUES(6,'requests','2026-11-17 00:00:00',1,X'258b332441cda8e9ab33febe428808516f1f1fd4063c085815620ac15e07ebf69de97a09f0fd80140452a27bd014ac29',1000000);
INSERT INTO _sqlx_migrations VALUES(7,'parked','2026-11-17 00:00:00',1,X'ed0af48e33db985853fb1e1ac443fa7c2806fb416e932df3a9ba6e22fa442c7a880d8269fed7e2e31f1155bdec7aab2c',1000000);
INSERT INTO _sqlx_migrations VALUES(10,'unsettled','2026-11-17 00:00:00',1,X'9f1e36374fadda55f6a4e820ad591c67ee7f6573f434dbd1c30070c00bf2d2bb7fc959db50bf46b906b3bc7740168eed',1000000);
INSERT INTO _sqlx_migrations VALUES(11,'quotas','2026-11-17 00:00:00',1,X'08d2b32ae40ec51af59e1ee6a679ae9cd834a97a41773e07cb8dc53cbd8833bc827b89cd9f28042b0668b525ca75e10f',1000000);
INSERT INTO _sqlx_migrations VALUES(12,'erasure','2026-11-17 00:00:00',1,X'0a146fab383fb7ea3cf5d2e6bf9d9ddaac48d5fed3d0c297bbec87ddec7276651b7fc1d21cfb1eda36d7465662c7695f',1000000);
CREATE TABLE tenants (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    name TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL
, limits TEXT NOT NULL DEFAULT '{}', suspended INTEGER, erasing INTEGER) STRICT;
INSERT INTO tenants VALUES(X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','alice',1700000000123456,'{}',NULL,NULL);
CREATE TABLE agents (
    tenant BLOB NOT NULL REFERENCES tenants (id),
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
) STRICT;
CREATE TABLE api_keys (
    tenant BLOB NOT NULL REFERENCES tenants (id),
    id TEXT NOT NULL,
    agent TEXT,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    scopes TEXT NOT NULL,
    limits TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    PRIMARY KEY (tenant, id),
    -- Not checked where there is no agent.
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
) STRICT;
INSERT INTO api_keys VALUES(X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','key-1',NULL,'owner',X'0101010101010101010101010101010101010101010101010101010101010101','[]','{}',1700000000123456,NULL,NULL);
CREATE TABLE sandboxes (
    id TEXT NOT NULL PRIMARY KEY,
    tenant BLOB NOT NULL REFERENCES tenants (id),
    agent TEXT,
    api_key TEXT NOT NULL,
    name TEXT,
    state TEXT NOT NULL,
    reason TEXT,
    template TEXT NOT NULL,
    container TEXT,
    workspace TEXT NOT NULL,
    token_hash BLOB NOT NULL CHECK (length(token_hash) = 32),
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    removing INTEGER NOT NULL CHECK (removing IN (0, 1)),
    keep_workspace INTEGER NOT NULL CHECK (keep_workspace IN (0, 1)),
    spec TEXT NOT NULL,
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id),
    FOREIGN KEY (tenant, api_key) REFERENCES api_keys (tenant, id)
) STRICT;
INSERT INTO sandboxes VALUES('sbx-new',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',NULL,'key-1',NULL,'starting',NULL,'base',NULL,'sbx-new',X'0202020202020202020202020202020202020202020202020202020202020202',1,2,3,0,0,'{}');
INSERT INTO sandboxes VALUES('sbx-again',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',NULL,'key-1',NULL,'starting','it is being started again','base',NULL,'sbx-again',X'0202020202020202020202020202020202020202020202020202020202020202',1,2,3,0,0,'{}');
INSERT INTO sandboxes VALUES('sbx-running',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',NULL,'key-1',NULL,'running',NULL,'base',NULL,'sbx-running',X'0202020202020202020202020202020202020202020202020202020202020202',1,2,3,0,0,'{}');
INSERT INTO sandboxes VALUES('sbx-failed',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',NULL,'key-1',NULL,'error','its container ended','base',NULL,'sbx-failed',X'0202020202020202020202020202020202020202020202020202020202020202',1,2,3,0,0,'{}');
INSERT INTO sandboxes VALUES('sbx-killed',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',NULL,'key-1',NULL,'error','its container ended: it used more memory than it may','base',NULL,'sbx-killed',X'0202020202020202020202020202020202020202020202020202020202020202',1,2,3,0,0,'{}');
INSERT INTO sandboxes VALUES('sbx-lost',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',NULL,'key-1',NULL,'error','its agent does not answer; its processes may still run','base',NULL,'sbx-lost',X'0202020202020202020202020202020202020202020202020202020202020202',1,2,3,0,0,'{}');
INSERT INTO sandboxes VALUES('sbx-unstarted',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',NULL,'key-1',NULL,'error','the image does not exist','base',NULL,'sbx-unstarted',X'0202020202020202020202020202020202020202020202020202020202020202',1,2,3,0,0,'{}');
CREATE TABLE templates (
    name TEXT NOT NULL PRIMARY KEY,
    image TEXT NOT NULL,
    description TEXT,
    tags TEXT NOT NULL,
    size INTEGER NOT NULL,
    writable_root INTEGER NOT NULL CHECK (writable_root IN (0, 1)),
    created INTEGER NOT NULL
) STRICT;
CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
INSERT INTO settings VALUES('kept-workspace:sbx-old','true');
INSERT INTO settings VALUES('installation','i');
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
    removing INTEGER NOT NULL CHECK (removing IN (0, 1)), retention TEXT NOT NULL DEFAULT 'all', retention_count INTEGER
    CHECK (retention_count > 0),
    UNIQUE (tenant, id),
    UNIQUE (tenant, name)
) STRICT;
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
    updated INTEGER NOT NULL, expires INTEGER,
    -- Not checked where there is no project, or no agent.
    FOREIGN KEY (tenant, project) REFERENCES projects (tenant, id),
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id),
    FOREIGN KEY (tenant, api_key) REFERENCES api_keys (tenant, id)
) STRICT;
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
CREATE TABLE held_requests (
    project TEXT NOT NULL REFERENCES projects (id),
    request TEXT NOT NULL,
    head BLOB NOT NULL CHECK (length(head) = 32),
    PRIMARY KEY (project, request)
) STRICT, WITHOUT ROWID;
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
CREATE TABLE dropped_versions (
    project TEXT NOT NULL REFERENCES projects (id),
    snapshot BLOB NOT NULL CHECK (length(snapshot) = 32),
    dropped INTEGER NOT NULL,
    PRIMARY KEY (project, snapshot)
) STRICT, WITHOUT ROWID;
CREATE TABLE tags (
    project TEXT NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    snapshot BLOB NOT NULL CHECK (length(snapshot) = 32),
    api_key TEXT NOT NULL,
    agent TEXT,
    message TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant BLOB NOT NULL CHECK (length(tenant) = 16),
    -- Whose sandbox or review it is about.
    agent TEXT,
    kind TEXT NOT NULL,
    -- What it is about: a sandbox or a project. Told in order for each.
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE TABLE webhooks (
    id TEXT NOT NULL PRIMARY KEY,
    tenant BLOB REFERENCES tenants (id) CHECK (length(tenant) = 16),
    agent TEXT,
    url TEXT NOT NULL,
    -- What deliveries are signed with.
    secret TEXT NOT NULL,
    -- JSON; none is all.
    kinds TEXT NOT NULL,
    created INTEGER NOT NULL,
    -- Events up to here have their deliveries.
    position INTEGER NOT NULL
) STRICT;
CREATE TABLE deliveries (
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event INTEGER NOT NULL REFERENCES events (id),
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    -- When it is tried next.
    due INTEGER NOT NULL,
    -- What the last attempt was answered with, or why it was not.
    status INTEGER,
    error TEXT,
    updated INTEGER NOT NULL,
    PRIMARY KEY (webhook, event)
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (
    tenant BLOB NOT NULL REFERENCES tenants (id),
    name BLOB NOT NULL CHECK (length(name) = 32),
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
    -- Everything that the request makes is named after this id.
    id TEXT NOT NULL,
    -- The server process that carries the request out; NULL if none does.
    process TEXT,
    -- Written before it is made, where the id does not say it.
    made TEXT,
    keep_until INTEGER NOT NULL,
    -- NULL until the request is answered.
    status INTEGER,
    -- NULL where the answer is not kept.
    body BLOB,
    PRIMARY KEY (tenant, name)
) STRICT;
CREATE TABLE unsettled (
    workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    path BLOB NOT NULL,
    seen BLOB,
    entry_left BLOB,
    marked INTEGER NOT NULL CHECK (marked IN (0, 1)),
    PRIMARY KEY (workspace, path)
) STRICT, WITHOUT ROWID;
DELETE FROM sqlite_sequence;
CREATE INDEX api_keys_by_agent ON api_keys (tenant, agent);
CREATE INDEX sandboxes_by_age ON sandboxes (created, id);
CREATE INDEX sandboxes_by_tenant ON sandboxes (tenant, created, id);
CREATE INDEX sandboxes_by_key ON sandboxes (tenant, api_key) WHERE removing = 0;
CREATE INDEX sandboxes_by_expiry ON sandboxes (expires, id) WHERE removing = 0;
CREATE INDEX sandboxes_by_state ON sandboxes (tenant, state) WHERE removing = 0;
CREATE INDEX projects_by_age ON projects (created, id);
CREATE INDEX projects_by_tenant ON projects (tenant, created, id);
CREATE INDEX workspaces_by_age ON workspaces (created, id);
CREATE INDEX workspaces_by_tenant ON workspaces (tenant, created, id);
CREATE INDEX workspaces_by_project ON workspaces (tenant, project, created, id);
CREATE INDEX workspaces_by_agent ON workspaces (tenant, agent, created, id);
CREATE INDEX workspaces_by_id ON workspaces (tenant, id);
CREATE INDEX landings_by_snapshot ON landings (project, snapshot, sequence);
CREATE UNIQUE INDEX landings_by_request ON landings (project, request)
    WHERE request IS NOT NULL;
CREATE INDEX versions_by_path ON versions (project, path, sequence);
CREATE UNIQUE INDEX reviews_open_of_workspace ON reviews (workspace, path)
    WHERE state = 'open';
CREATE INDEX reviews_open ON reviews (tenant, created, id) WHERE state = 'open';
CREATE INDEX reviews_open_of_project ON reviews (tenant, project, created, id)
    WHERE state = 'open';
CREATE INDEX reviews_by_tenant ON reviews (tenant, created, id);
CREATE INDEX reviews_by_project ON reviews (tenant, project, created, id);
CREATE INDEX reviews_by_workspace ON reviews (workspace, created, id);
CREATE INDEX reviews_by_expiry ON reviews (expires, id) WHERE state = 'open';
CREATE INDEX reviews_open_by_id ON reviews (tenant, id) WHERE state = 'open';
CREATE INDEX dropped_versions_by_snapshot ON dropped_versions (snapshot);
CREATE INDEX events_by_tenant ON events (tenant, id);
CREATE INDEX events_by_time ON events (at);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, created, id);
CREATE INDEX deliveries_pending ON deliveries (webhook, event) WHERE state = 'pending';
CREATE INDEX deliveries_by_event ON deliveries (event);
CREATE INDEX requests_by_age ON requests (keep_until);
CREATE INDEX requests_at_work ON requests (process)
    WHERE status IS NULL AND process IS NOT NULL;
CREATE INDEX workspaces_by_expiry ON workspaces (expires, id)
    WHERE state = 'parked';
CREATE UNIQUE INDEX sandboxes_by_workspace ON sandboxes (tenant, workspace);
COMMIT;
