-- Names of versions, which keep them.
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
