-- The words of the API: a step has a number, and a decision takes a version.
UPDATE events SET data = json_set(json_remove(data, '$.sequence'),
        '$.step', json_extract(data, '$.sequence'))
    WHERE kind = 'project.landed' AND json_valid(data)
    AND json_extract(data, '$.sequence') IS NOT NULL;

UPDATE reviews SET kind = 'removed-in-project' WHERE kind = 'removed-by-us';
UPDATE reviews SET kind = 'removed-in-workspace' WHERE kind = 'removed-by-them';

UPDATE reviews SET detail = json_set(detail, '$.suggestion',
        CASE json_extract(detail, '$.suggestion') WHEN 'ours' THEN 'project' ELSE 'workspace' END)
    WHERE json_valid(detail) AND json_extract(detail, '$.suggestion') IN ('ours', 'theirs');

UPDATE reviews SET resolution = json_set(json_remove(resolution, '$.resolution'), '$.take',
        CASE json_extract(resolution, '$.resolution')
            WHEN 'ours' THEN 'project' WHEN 'theirs' THEN 'workspace'
            WHEN 'reject' THEN 'nothing' ELSE json_extract(resolution, '$.resolution') END)
    WHERE json_valid(resolution) AND json_extract(resolution, '$.resolution') IS NOT NULL;

UPDATE landings SET counts = json_set(json_remove(counts, '$.decided.resolution'), '$.decided.take',
        CASE json_extract(counts, '$.decided.resolution')
            WHEN 'ours' THEN 'project' WHEN 'theirs' THEN 'workspace'
            WHEN 'reject' THEN 'nothing' ELSE json_extract(counts, '$.decided.resolution') END)
    WHERE json_valid(counts) AND json_extract(counts, '$.decided.resolution') IS NOT NULL;

-- The details of an event name other objects as all responses do.
UPDATE events SET data = json_set(json_remove(data, '$.projectId'),
        '$.project', json_extract(data, '$.projectId'))
    WHERE json_valid(data) AND json_type(data, '$.projectId') IS NOT NULL;
UPDATE events SET data = json_set(json_remove(data, '$.workspaceId'),
        '$.workspace', json_extract(data, '$.workspaceId'))
    WHERE json_valid(data) AND json_type(data, '$.workspaceId') IS NOT NULL;
UPDATE events SET data = json_set(json_remove(data, '$.reviewId'),
        '$.review', json_extract(data, '$.reviewId'))
    WHERE json_valid(data) AND json_type(data, '$.reviewId') IS NOT NULL;
