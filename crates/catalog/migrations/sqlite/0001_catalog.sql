-- Times are microseconds since 1970, ids of tenants sixteen bytes, hashes
-- thirty-two. Lists and specifications are JSON in text.

CREATE TABLE tenants (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    name TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL
) STRICT;

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

CREATE INDEX api_keys_by_agent ON api_keys (tenant, agent);

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

-- Lists, newest first.
CREATE INDEX sandboxes_by_age ON sandboxes (created, id);
CREATE INDEX sandboxes_by_tenant ON sandboxes (tenant, created, id);
-- Limits, the clean-up and the count by state look only at those that stay.
CREATE INDEX sandboxes_by_key ON sandboxes (tenant, api_key) WHERE removing = 0;
CREATE INDEX sandboxes_by_expiry ON sandboxes (expires, id) WHERE removing = 0;
CREATE INDEX sandboxes_by_state ON sandboxes (tenant, state) WHERE removing = 0;

CREATE TABLE templates (
    name TEXT NOT NULL PRIMARY KEY,
    image TEXT NOT NULL,
    description TEXT,
    tags TEXT NOT NULL,
    size INTEGER NOT NULL,
    writable_root INTEGER NOT NULL CHECK (writable_root IN (0, 1)),
    created INTEGER NOT NULL
) STRICT;

-- Requests that run (without a status) or were answered.
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

CREATE INDEX requests_by_age ON requests (keep_until);
CREATE INDEX requests_running ON requests (tenant) WHERE status IS NULL;

CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
