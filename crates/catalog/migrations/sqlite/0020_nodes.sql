-- The machines on which servers run sandboxes, each with its newest session. A
-- server begins a session when it starts; 0 before the first one. All records of a
-- catalog from before this table belong to the first node.
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL CHECK (session >= 0),
    started INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT;

CREATE INDEX nodes_by_session ON nodes (session);

INSERT INTO nodes (id, name, session, started, expires) VALUES (1, 'local', 0, 0, 0);

-- Work that one session at a time does for all servers. A released lease keeps its
-- row, so that its token never returns.
CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    session INTEGER NOT NULL,
    token INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
