-- What happened, in the order in which it did: written in the transaction that
-- made it so. No number is used twice.
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

CREATE INDEX events_by_tenant ON events (tenant, id);
CREATE INDEX events_by_time ON events (at);

-- Who is told by HTTP. One without a tenant is the server's own, and is told of
-- all tenants.
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

CREATE INDEX webhooks_by_tenant ON webhooks (tenant, created, id);

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

CREATE INDEX deliveries_pending ON deliveries (webhook, event) WHERE state = 'pending';
CREATE INDEX deliveries_by_event ON deliveries (event);
