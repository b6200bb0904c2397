-- Names are unique: those of sandboxes in a tenant, those of workspaces in a
-- project. A record that is being removed frees its name. Where several records
-- have a name, the oldest keeps it, and the others get their id behind it.
CREATE INDEX sandboxes_with_name ON sandboxes (tenant, name);
CREATE INDEX workspaces_with_name ON workspaces (tenant, name);

UPDATE sandboxes SET name = substr(name, 1, 30) || '-' || id
    WHERE name IS NOT NULL AND removing = 0 AND EXISTS (
        SELECT 1 FROM sandboxes other
        WHERE other.tenant = sandboxes.tenant AND other.name = sandboxes.name
            AND other.removing = 0
            AND (other.created, other.id) < (sandboxes.created, sandboxes.id));

UPDATE workspaces SET name = substr(name, 1, 30) || '-' || id
    WHERE name IS NOT NULL AND state <> 'removing' AND EXISTS (
        SELECT 1 FROM workspaces other
        WHERE other.tenant = workspaces.tenant AND other.name = workspaces.name
            AND coalesce(other.project, '') = coalesce(workspaces.project, '')
            AND other.state <> 'removing'
            AND (other.created, other.id) < (workspaces.created, workspaces.id));

DROP INDEX sandboxes_with_name;
DROP INDEX workspaces_with_name;

CREATE UNIQUE INDEX sandboxes_by_name ON sandboxes (tenant, name)
    WHERE removing = 0 AND name IS NOT NULL;
CREATE UNIQUE INDEX workspaces_by_name ON workspaces (tenant, name, coalesce(project, ''))
    WHERE state <> 'removing' AND name IS NOT NULL;
