-- The commands with an id that a client has chosen, so that a command runs once
-- even if the workspace agent no longer knows it. The fingerprint is a hash of
-- the client and its request.
CREATE TABLE commands (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
    PRIMARY KEY (sandbox, id)
) STRICT, WITHOUT ROWID;
