-- Requests are named by a hash of the API key, the route and the
-- `Idempotency-Key`, so that equal keys of different senders or routes never
-- meet. Rows of the former table cannot be named that way; they would have been
-- kept for a day.
DROP TABLE requests;

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

CREATE INDEX requests_by_age ON requests (keep_until);
CREATE INDEX requests_at_work ON requests (process)
    WHERE status IS NULL AND process IS NOT NULL;
