-- A catalog as version 4 wrote it; never edited, except before the first release.
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
INSERT INTO _sqlx_migrations VALUES(1,'catalog','2025-11-15 00:00:00',1,X'7aea1f8268132e24fd1c257dc8cc0138d7964379edd299bb59eac85ce7a9eaa35616433e58efc92e3a72e4cef61cfad6',15237434);
INSERT INTO _sqlx_migrations VALUES(2,'projects','2026-11-15 00:00:00',1,X'f50f162554850b51db3d574d5ecb5ff2626a4e1416122727f07429c609d3920aa234ccfcfba9b6a519121d7dc30cb02d',11130997);
INSERT INTO _sqlx_migrations VALUES(3,'retention','2026-11-15 00:00:00',1,X'4948c5749128bda7d67ef1e4c10545fd433b3c84c83a35406af5299f84b3d84ae8f9139cdf9c97dd5bcc163f1b819eaa',1000000);
INSERT INTO _sqlx_migrations VALUES(4,'tags','2026-11-15 00:00:00',1,X'f2712e29077d0deba16c3786a68457ea3990ec52d6873d38a0e0e0f39917d9cfac124f726cebd85172ff5a96aa971b83',1000000);
CREATE TABLE tenants (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    name TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL
) STRICT;
INSERT INTO tenants VALUES(X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','Alice & co.',1700000000123456);
CREATE TABLE agents (
    tenant BLOB NOT NULL REFERENCES tenants (id),
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
) STRICT;
INSERT INTO agents VALUES(X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','agt-1','builder',1700000001123456);
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
INSERT INTO api_keys VALUES(X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','key-1','agt-1','laptop',X'1111111111111111111111111111111111111111111111111111111111111111','["sandboxes","commands"]','{"creates_per_minute":10,"commands_per_minute":100,"requests_per_minute":null,"sandboxes":10}',1700000002123456,1800000000123456,1750000000123456);
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
INSERT INTO sandboxes VALUES('sbx-1',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','agt-1','key-1','ünïcode ''quoted''','stopped','it was asked to','base','c0ffee','ws-1',X'2222222222222222222222222222222222222222222222222222222222222222',1700000003123456,1700003600123456,1700000004123456,1,1,'{"env":{"A":"b\nc"},"memory":1073741824}');
CREATE TABLE templates (
    name TEXT NOT NULL PRIMARY KEY,
    image TEXT NOT NULL,
    description TEXT,
    tags TEXT NOT NULL,
    size INTEGER NOT NULL,
    writable_root INTEGER NOT NULL CHECK (writable_root IN (0, 1)),
    created INTEGER NOT NULL
) STRICT;
INSERT INTO templates VALUES('base','docker.io/library/debian:12','words','["debian"]',1099511627776,1,1700000000123456);
CREATE TABLE requests (
    tenant BLOB NOT NULL REFERENCES tenants (id),
    idempotency_key TEXT NOT NULL,
    route TEXT NOT NULL,
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
    keep_until INTEGER NOT NULL,
    status INTEGER,
    body BLOB,
    PRIMARY KEY (tenant, idempotency_key)
) STRICT;
INSERT INTO requests VALUES(X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','done','POST /api/v1/sandboxes',X'3333333333333333333333333333333333333333333333333333333333333333',1700086405123456,201,X'7b7d');
INSERT INTO requests VALUES(X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','running','POST /api/v1/sandboxes',X'3333333333333333333333333333333333333333333333333333333333333333',1700086405123456,NULL,NULL);
CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
INSERT INTO settings VALUES('installation','it''s this one');
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
INSERT INTO projects VALUES('prj-1',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','handbook','words',X'0202020202020202020202020202020202020202020202020202020202020202',2,3,1700000000123456,1700000003123456,0,'daily',30);
CREATE TABLE policies (
    project TEXT NOT NULL PRIMARY KEY REFERENCES projects (id),
    policy TEXT NOT NULL
) STRICT;
INSERT INTO policies VALUES('prj-1','{"rules":[]}');
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
INSERT INTO workspaces VALUES('ws-1',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','prj-1','agt-1','key-1','mine',X'0202020202020202020202020202020202020202020202020202020202020202',X'0202020202020202020202020202020202020202020202020202020202020202',1,'{"mode":"manual"}',0,1,'parked',1700000003123456,1700000001123456,1700000003123456);
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
INSERT INTO landings VALUES('prj-1',1,X'0101010101010101010101010101010101010101010101010101010101010101',X'0000000000000000000000000000000000000000000000000000000000000000','import',NULL,NULL,'key-1','',NULL,'{}',1700000002123456);
INSERT INTO landings VALUES('prj-1',2,X'0202020202020202020202020202020202020202020202020202020202020202',X'0101010101010101010101010101010101010101010101010101010101010101','merge','agt-1','ws-1','key-1',replace('better\nwords','\n',char(10)),'req-1','{"added":1}',1700000003123456);
CREATE TABLE held_requests (
    project TEXT NOT NULL REFERENCES projects (id),
    request TEXT NOT NULL,
    head BLOB NOT NULL CHECK (length(head) = 32),
    PRIMARY KEY (project, request)
) STRICT, WITHOUT ROWID;
INSERT INTO held_requests VALUES('prj-1','req-2',X'0202020202020202020202020202020202020202020202020202020202020202');
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
INSERT INTO versions VALUES('prj-1',1,X'','added',NULL,NULL,X'0501ed00000000000f424000040000000000000909090909090909090909090909090909090909090909090909090909090909',900000,1,'take');
INSERT INTO versions VALUES('prj-1',2,X'610062','modified',NULL,X'0201a400000000000000050707070707070707070707070707070707070707070707070707070707070707',X'0301a400000100000000000808080808080808080808080808080808080808080808080808080808080808',1,0,'text');
INSERT INTO versions VALUES('prj-1',2,X'612d62','removed',NULL,X'0600000000000000030606060606060606060606060606060606060606060606060606060606060606',NULL,1,0,'take');
INSERT INTO versions VALUES('prj-1',2,X'63','added',NULL,NULL,X'0401ed',0,0,'take');
INSERT INTO versions VALUES('prj-1',2,X'78','mode',NULL,X'0101a4',X'0101a4',1,0,'take');
INSERT INTO versions VALUES('prj-1',2,X'c3bc','renamed',X'612d62',NULL,X'0600000000000000030606060606060606060606060606060606060606060606060606060606060606',1,0,'take');
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
INSERT INTO reviews VALUES('rev-1',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','prj-1','ws-1','agt-1',X'610063','conflict',NULL,X'0101a4',NULL,X'0000000000000000000000000000000000000000000000000000000000000000',X'0101010101010101010101010101010101010101010101010101010101010101',X'0505050505050505050505050505050505050505050505050505050505050505','text','superseded','{"hunks":2}',1700000002123456,NULL,1700000003123456,'agt-1','"newer"','rev-2',0);
INSERT INTO reviews VALUES('rev-2',X'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1','prj-1','ws-1','agt-1',X'610063','conflict',NULL,X'0101a4',NULL,X'0000000000000000000000000000000000000000000000000000000000000000',X'0101010101010101010101010101010101010101010101010101010101010101',X'0505050505050505050505050505050505050505050505050505050505050505','text','open','{"hunks":2}',1700000003123456,1700001000123456,NULL,NULL,NULL,NULL,1);
CREATE TABLE dropped_versions (
    project TEXT NOT NULL REFERENCES projects (id),
    snapshot BLOB NOT NULL CHECK (length(snapshot) = 32),
    dropped INTEGER NOT NULL,
    PRIMARY KEY (project, snapshot)
) STRICT, WITHOUT ROWID;
INSERT INTO dropped_versions VALUES('prj-1',X'0000000000000000000000000000000000000000000000000000000000000000',1700000004123456);
INSERT INTO dropped_versions VALUES('prj-1',X'0101010101010101010101010101010101010101010101010101010101010101',1700000004123456);
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
INSERT INTO tags VALUES('prj-1','v1',X'0202020202020202020202020202020202020202020202020202020202020202','key-1','agt-1','as shown',1700000005123456);
INSERT INTO tags VALUES('prj-1','v2',X'0202020202020202020202020202020202020202020202020202020202020202','key-1',NULL,'',1700000006123456);
CREATE INDEX api_keys_by_agent ON api_keys (tenant, agent);
CREATE INDEX sandboxes_by_age ON sandboxes (created, id);
CREATE INDEX sandboxes_by_tenant ON sandboxes (tenant, created, id);
CREATE INDEX sandboxes_by_key ON sandboxes (tenant, api_key) WHERE removing = 0;
CREATE INDEX sandboxes_by_expiry ON sandboxes (expires, id) WHERE removing = 0;
CREATE INDEX sandboxes_by_state ON sandboxes (tenant, state) WHERE removing = 0;
CREATE INDEX requests_by_age ON requests (keep_until);
CREATE INDEX requests_running ON requests (tenant) WHERE status IS NULL;
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
COMMIT;
