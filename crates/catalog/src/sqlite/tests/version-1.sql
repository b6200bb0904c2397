-- A catalog as version 1 wrote it; never edited, except before the first release.
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
CREATE INDEX api_keys_by_agent ON api_keys (tenant, agent);
CREATE INDEX sandboxes_by_age ON sandboxes (created, id);
CREATE INDEX sandboxes_by_tenant ON sandboxes (tenant, created, id);
CREATE INDEX sandboxes_by_key ON sandboxes (tenant, api_key) WHERE removing = 0;
CREATE INDEX sandboxes_by_expiry ON sandboxes (expires, id) WHERE removing = 0;
CREATE INDEX sandboxes_by_state ON sandboxes (tenant, state) WHERE removing = 0;
CREATE INDEX requests_by_age ON requests (keep_until);
CREATE INDEX requests_running ON requests (tenant) WHERE status IS NULL;
COMMIT;
