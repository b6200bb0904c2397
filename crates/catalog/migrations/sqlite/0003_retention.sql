-- Which versions of a project keep their content: a word, and how many for the
-- words that count.
ALTER TABLE projects ADD COLUMN retention TEXT NOT NULL DEFAULT 'all';
ALTER TABLE projects ADD COLUMN retention_count INTEGER
    CHECK (retention_count > 0);

-- Versions whose content is gone, or is about to be. Their landings stay.
CREATE TABLE dropped_versions (
    project TEXT NOT NULL REFERENCES projects (id),
    snapshot BLOB NOT NULL CHECK (length(snapshot) = 32),
    dropped INTEGER NOT NULL,
    PRIMARY KEY (project, snapshot)
) STRICT, WITHOUT ROWID;

CREATE INDEX dropped_versions_by_snapshot ON dropped_versions (snapshot);
