-- Paths where a refresh met a conflict that its workspace has not settled yet:
-- the project's version that the refresh brought, and what it left in the
-- workspace. NULL is nothing.
CREATE TABLE unsettled (
    workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    path BLOB NOT NULL,
    seen BLOB,
    entry_left BLOB,
    marked INTEGER NOT NULL CHECK (marked IN (0, 1)),
    PRIMARY KEY (workspace, path)
) STRICT, WITHOUT ROWID;
