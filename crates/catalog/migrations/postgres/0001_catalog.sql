-- The catalog, with the same tables and columns as that of SQLite; tests compare the two. Texts are
-- compared by their bytes.

CREATE TABLE tenants (
    id bytea NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    name text COLLATE "C" NOT NULL UNIQUE,
    created bigint NOT NULL,
    limits text COLLATE "C" NOT NULL DEFAULT '{}',
    suspended bigint,
    erasing bigint,
    events_forgotten bigint NOT NULL DEFAULT 0
);

CREATE TABLE agents (
    tenant bytea NOT NULL REFERENCES tenants (id),
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
);

CREATE TABLE api_keys (
    tenant bytea NOT NULL REFERENCES tenants (id),
    id text COLLATE "C" NOT NULL,
    agent text COLLATE "C",
    name text COLLATE "C" NOT NULL,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    scopes text COLLATE "C" NOT NULL,
    limits text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    revoked bigint,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);

CREATE TABLE sandboxes (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant bytea NOT NULL REFERENCES tenants (id),
    agent text COLLATE "C",
    api_key text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    state text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    template text COLLATE "C" NOT NULL,
    container text COLLATE "C",
    workspace text COLLATE "C" NOT NULL,
    token_hash bytea NOT NULL CHECK (length(token_hash) = 32),
    created bigint NOT NULL,
    expires bigint NOT NULL,
    updated bigint NOT NULL,
    removing boolean NOT NULL,
    keep_workspace boolean NOT NULL,
    spec text COLLATE "C" NOT NULL,
    started_before boolean NOT NULL DEFAULT false,
    failure text COLLATE "C",
    metadata text COLLATE "C" NOT NULL DEFAULT '{}',
    node bigint NOT NULL DEFAULT 1,
    generation bigint NOT NULL DEFAULT 1 CHECK (generation > 0),
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id),
    FOREIGN KEY (tenant, api_key) REFERENCES api_keys (tenant, id)
);

CREATE TABLE templates (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    image text COLLATE "C" NOT NULL,
    description text COLLATE "C",
    tags text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    writable_root boolean NOT NULL,
    created bigint NOT NULL
);

CREATE TABLE settings (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

CREATE TABLE projects (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant bytea NOT NULL REFERENCES tenants (id),
    name text COLLATE "C" NOT NULL,
    description text COLLATE "C",
    head bytea NOT NULL CHECK (length(head) = 32),
    sequence bigint NOT NULL CHECK (sequence >= 0),
    policy_version bigint NOT NULL CHECK (policy_version >= 0),
    created bigint NOT NULL,
    updated bigint NOT NULL,
    removing boolean NOT NULL,
    retention text COLLATE "C" NOT NULL DEFAULT 'all',
    retention_count bigint CHECK (retention_count > 0),
    UNIQUE (tenant, id),
    UNIQUE (tenant, name)
);

CREATE TABLE policies (
    project text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES projects (id),
    policy text COLLATE "C" NOT NULL
);

CREATE TABLE workspaces (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant bytea NOT NULL REFERENCES tenants (id),
    project text COLLATE "C",
    agent text COLLATE "C",
    api_key text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    base bytea NOT NULL CHECK (length(base) = 32),
    synced bytea NOT NULL CHECK (length(synced) = 32),
    merges bigint NOT NULL CHECK (merges >= 0),
    sync text COLLATE "C" NOT NULL,
    read_only boolean NOT NULL,
    follows boolean NOT NULL,
    state text COLLATE "C" NOT NULL,
    last_merge bigint,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    expires bigint,
    node bigint NOT NULL DEFAULT 1,
    generation bigint NOT NULL DEFAULT 1 CHECK (generation > 0),
    files_origin bytea CHECK (length(files_origin) = 32),
    files_base bytea CHECK (length(files_base) = 32),
    files_home bytea CHECK (length(files_home) = 32),
    files_limit bigint,
    FOREIGN KEY (tenant, project) REFERENCES projects (tenant, id),
    FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id),
    FOREIGN KEY (tenant, api_key) REFERENCES api_keys (tenant, id)
);

CREATE TABLE landings (
    project text COLLATE "C" NOT NULL REFERENCES projects (id),
    sequence bigint NOT NULL CHECK (sequence > 0),
    snapshot bytea NOT NULL CHECK (length(snapshot) = 32),
    parent bytea NOT NULL CHECK (length(parent) = 32),
    kind text COLLATE "C" NOT NULL,
    agent text COLLATE "C",
    workspace text COLLATE "C",
    api_key text COLLATE "C" NOT NULL,
    message text COLLATE "C" NOT NULL,
    request text COLLATE "C",
    counts text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    PRIMARY KEY (project, sequence)
);

CREATE TABLE held_requests (
    project text COLLATE "C" NOT NULL REFERENCES projects (id),
    request text COLLATE "C" NOT NULL,
    head bytea NOT NULL CHECK (length(head) = 32),
    PRIMARY KEY (project, request)
);

CREATE TABLE versions (
    project text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    path bytea NOT NULL,
    kind text COLLATE "C" NOT NULL,
    origin bytea,
    entry_before bytea,
    entry_after bytea,
    files bigint NOT NULL CHECK (files >= 0),
    whole boolean NOT NULL,
    algorithm text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, sequence, path),
    FOREIGN KEY (project, sequence) REFERENCES landings (project, sequence)
);

CREATE TABLE reviews (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant bytea NOT NULL REFERENCES tenants (id),
    project text COLLATE "C" NOT NULL,
    workspace text COLLATE "C",
    agent text COLLATE "C",
    path bytea NOT NULL,
    kind text COLLATE "C" NOT NULL,
    base bytea,
    ours bytea,
    theirs bytea,
    base_snapshot bytea NOT NULL CHECK (length(base_snapshot) = 32),
    ours_snapshot bytea NOT NULL CHECK (length(ours_snapshot) = 32),
    theirs_snapshot bytea NOT NULL CHECK (length(theirs_snapshot) = 32),
    algorithm text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    detail text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    closed bigint,
    closed_by text COLLATE "C",
    resolution text COLLATE "C",
    successor text COLLATE "C",
    reopened bigint NOT NULL CHECK (reopened >= 0),
    FOREIGN KEY (tenant, project) REFERENCES projects (tenant, id)
);

CREATE TABLE dropped_versions (
    project text COLLATE "C" NOT NULL REFERENCES projects (id),
    snapshot bytea NOT NULL CHECK (length(snapshot) = 32),
    dropped bigint NOT NULL,
    PRIMARY KEY (project, snapshot)
);

CREATE TABLE tags (
    project text COLLATE "C" NOT NULL REFERENCES projects (id),
    name text COLLATE "C" NOT NULL,
    snapshot bytea NOT NULL CHECK (length(snapshot) = 32),
    api_key text COLLATE "C" NOT NULL,
    agent text COLLATE "C",
    message text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    PRIMARY KEY (project, name)
);

CREATE TABLE events (
    id bigint NOT NULL PRIMARY KEY,
    tenant bytea NOT NULL CHECK (length(tenant) = 16),
    agent text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL
);

CREATE TABLE webhooks (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant bytea REFERENCES tenants (id) CHECK (length(tenant) = 16),
    agent text COLLATE "C",
    url text COLLATE "C" NOT NULL,
    secret text COLLATE "C" NOT NULL,
    kinds text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    position bigint NOT NULL,
    previous_secret text COLLATE "C" NOT NULL DEFAULT '',
    previous_until bigint);

CREATE TABLE deliveries (
    webhook text COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event bigint NOT NULL REFERENCES events (id),
    state text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL,
    due bigint NOT NULL,
    status bigint,
    error text COLLATE "C",
    updated bigint NOT NULL,
    PRIMARY KEY (webhook, event)
);

CREATE TABLE requests (
    tenant bytea NOT NULL REFERENCES tenants (id),
    name bytea NOT NULL CHECK (length(name) = 32),
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    id text COLLATE "C" NOT NULL,
    process text COLLATE "C",
    made text COLLATE "C",
    keep_until bigint NOT NULL,
    status bigint,
    body bytea,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE unsettled (
    workspace text COLLATE "C" NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    path bytea NOT NULL,
    seen bytea,
    entry_left bytea,
    marked boolean NOT NULL,
    PRIMARY KEY (workspace, path)
);

CREATE TABLE sandbox_metadata (
    tenant bytea NOT NULL CHECK (length(tenant) = 16),
    key text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    sandbox text COLLATE "C" NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, key, value, sandbox)
);

CREATE TABLE snapshots (
    tenant bytea NOT NULL REFERENCES tenants (id),
    id bytea NOT NULL CHECK (length(id) = 32),
    tree bytea CHECK (length(tree) = 32),
    workspace text COLLATE "C",
    api_key text COLLATE "C" NOT NULL,
    agent text COLLATE "C",
    message text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    created bigint NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE commands (
    sandbox text COLLATE "C" NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    id text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    PRIMARY KEY (sandbox, id)
);

CREATE INDEX api_keys_by_agent ON api_keys (tenant, agent);

CREATE INDEX sandboxes_by_age ON sandboxes (created, id);

CREATE INDEX sandboxes_by_tenant ON sandboxes (tenant, created, id);

CREATE INDEX sandboxes_by_key ON sandboxes (tenant, api_key) WHERE NOT removing;

CREATE INDEX sandboxes_by_expiry ON sandboxes (node, expires, id) WHERE NOT removing;

CREATE INDEX sandboxes_by_state ON sandboxes (tenant, state) WHERE NOT removing;

CREATE INDEX projects_by_age ON projects (created, id);

CREATE INDEX projects_by_tenant ON projects (tenant, created, id);

CREATE INDEX workspaces_by_age ON workspaces (created, id);

CREATE INDEX workspaces_by_tenant ON workspaces (tenant, created, id);

CREATE INDEX workspaces_by_project ON workspaces (tenant, project, created, id);

CREATE INDEX workspaces_by_agent ON workspaces (tenant, agent, created, id);

CREATE INDEX workspaces_by_id ON workspaces (tenant, id);

CREATE INDEX landings_by_snapshot ON landings (project, snapshot, sequence);

CREATE UNIQUE INDEX landings_by_request ON landings (project, request)
    WHERE request IS NOT NULL;

CREATE INDEX versions_by_path ON versions (project, path, sequence);

CREATE UNIQUE INDEX reviews_open_of_workspace ON reviews (workspace, path)
    WHERE state = 'open';

CREATE INDEX reviews_open ON reviews (tenant, created, id) WHERE state = 'open';

CREATE INDEX reviews_open_of_project ON reviews (tenant, project, created, id)
    WHERE state = 'open';

CREATE INDEX reviews_by_tenant ON reviews (tenant, created, id);

CREATE INDEX reviews_by_project ON reviews (tenant, project, created, id);

CREATE INDEX reviews_by_workspace ON reviews (workspace, created, id);

CREATE INDEX reviews_by_expiry ON reviews (expires, id) WHERE state = 'open';

CREATE INDEX reviews_open_by_id ON reviews (tenant, id) WHERE state = 'open';

CREATE INDEX dropped_versions_by_snapshot ON dropped_versions (snapshot);

CREATE INDEX events_by_tenant ON events (tenant, id);

CREATE INDEX events_by_time ON events (at);

CREATE INDEX webhooks_by_tenant ON webhooks (tenant, created, id);

CREATE INDEX deliveries_pending ON deliveries (webhook, event) WHERE state = 'pending';

CREATE INDEX deliveries_by_event ON deliveries (event);

CREATE INDEX requests_by_age ON requests (keep_until);

CREATE INDEX requests_at_work ON requests (process)
    WHERE status IS NULL AND process IS NOT NULL;

CREATE INDEX workspaces_by_expiry ON workspaces (node, expires, id)
    WHERE state = 'parked';

CREATE UNIQUE INDEX sandboxes_by_workspace ON sandboxes (tenant, workspace);

CREATE INDEX sandbox_metadata_by_sandbox ON sandbox_metadata (sandbox);

CREATE UNIQUE INDEX snapshots_by_name ON snapshots (tenant, name)
    WHERE name IS NOT NULL;

CREATE INDEX snapshots_by_age ON snapshots (tenant, created, id);

CREATE INDEX snapshots_by_agent ON snapshots (tenant, agent, created, id)
    WHERE agent IS NOT NULL;

CREATE INDEX snapshots_by_workspace ON snapshots (tenant, workspace, created, id)
    WHERE workspace IS NOT NULL;

CREATE INDEX webhooks_previous ON webhooks (previous_until) WHERE previous_until IS NOT NULL;

CREATE UNIQUE INDEX sandboxes_by_name ON sandboxes (tenant, name)
    WHERE NOT removing AND name IS NOT NULL;

CREATE UNIQUE INDEX workspaces_by_name ON workspaces (tenant, name, coalesce(project, ''))
    WHERE state <> 'removing' AND name IS NOT NULL;
CREATE INDEX sandboxes_by_node ON sandboxes (node, created, id);

CREATE INDEX workspaces_by_node ON workspaces (node, created, id);

-- The machines on which servers run sandboxes, each with its newest session; 0 before the first one.
CREATE TABLE nodes (
    id bigint NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    session bigint NOT NULL CHECK (session >= 0),
    started bigint NOT NULL,
    expires bigint NOT NULL
);

CREATE INDEX nodes_by_session ON nodes (session);

INSERT INTO nodes (id, name, session, started, expires) VALUES (1, 'local', 0, 0, 0);

-- Work that one session at a time does for all servers. A released lease keeps its row, so that its token
-- never returns.
CREATE TABLE leases (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    session bigint NOT NULL,
    token bigint NOT NULL,
    expires bigint NOT NULL
);

-- The time of the database in microseconds. Leases and sessions expire by it.
CREATE FUNCTION now_1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- Events without a number yet. A change inserts here; `number_events` moves the rows to `events`. A
-- sequence would number events in the order in which they were inserted, not in the order in which they
-- become visible, so a reader with a position would miss some.
CREATE TABLE outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bytea NOT NULL CHECK (length(tenant) = 16),
    agent text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL
);

-- The number of the newest event ever.
CREATE TABLE last_event (
    only_row boolean NOT NULL PRIMARY KEY DEFAULT true CHECK (only_row),
    number bigint NOT NULL
);

INSERT INTO last_event (number) VALUES (0);

-- Gives numbers to all events that are committed, and notifies the followers. Returns the number of the
-- newest event. All callers that find events without a number take turns, so that a caller returns only
-- when every event that was committed before its call has a number.
CREATE FUNCTION number_events_1() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moved bigint;
    newest bigint;
BEGIN
    IF EXISTS (SELECT 1 FROM outbox) THEN
        -- Class 3 of the advisory locks: numbering.
        PERFORM pg_advisory_xact_lock(3, 0);
        SELECT number INTO newest FROM last_event;
        WITH taken AS (
            DELETE FROM outbox RETURNING seq, tenant, agent, kind, subject, at, data
        ), numbered AS (
            INSERT INTO events (id, tenant, agent, kind, subject, at, data)
            SELECT newest + row_number() OVER (ORDER BY seq), tenant, agent, kind, subject, at, data FROM taken
            RETURNING 1
        )
        SELECT count(*) INTO moved FROM numbered;
        IF moved > 0 THEN
            UPDATE last_event SET number = newest + moved;
            PERFORM pg_notify('events', (newest + moved)::text);
        END IF;
        RETURN newest + moved;
    END IF;
    SELECT number INTO newest FROM last_event;
    RETURN newest;
END
$$;

-- Lands the steps of a landing, or none: one call, which is its own transaction. `steps` is an array of
-- objects, which `src/postgres/land_call.rs` makes; bytes are in hexadecimal. Its errors have SQLSTATEs that
-- begin with EL, and their DETAIL has the values. Returns the sequence number of the head.
CREATE FUNCTION land_1(
    of_tenant bytea, of_project text, expected_head bytea, expected_policy bigint, moment bigint,
    needed bytea[], steps jsonb
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    project_now record;
    earlier record;
    dropped bytea;
    step jsonb;
    at_head bytea := expected_head;
    next_head bytea;
    reached bigint;
BEGIN
    SELECT projects.head, sequence, policy_version, removing INTO project_now FROM projects
        WHERE tenant = of_tenant AND id = of_project FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such project' USING ERRCODE = 'EL001';
    END IF;
    reached := project_now.sequence;
    -- A repeated request is found before a moved head: a retry expects a head that has since moved.
    SELECT request, sequence, snapshot INTO earlier FROM (
        SELECT request, sequence, snapshot FROM landings WHERE project = of_project
            AND request = ANY (ARRAY(SELECT one ->> 'request' FROM jsonb_array_elements(steps) one))
        UNION ALL
        SELECT request, NULL, held_requests.head FROM held_requests WHERE project = of_project
            AND request = ANY (ARRAY(SELECT one ->> 'request' FROM jsonb_array_elements(steps) one))
    ) known LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the request was carried out before' USING ERRCODE = 'EL002',
            DETAIL = json_build_array(earlier.request, encode(earlier.snapshot, 'hex'), earlier.sequence);
    END IF;
    IF project_now.removing THEN
        RAISE EXCEPTION 'the project is being removed' USING ERRCODE = 'EL003';
    END IF;
    IF project_now.head <> expected_head THEN
        RAISE EXCEPTION 'the head has moved' USING ERRCODE = 'EL004',
            DETAIL = json_build_array(encode(project_now.head, 'hex'), project_now.sequence);
    END IF;
    IF project_now.policy_version <> expected_policy THEN
        RAISE EXCEPTION 'the policy has moved' USING ERRCODE = 'EL005',
            DETAIL = json_build_array(project_now.policy_version);
    END IF;
    -- Class 4 of the advisory locks: the drop of versions against records that come to need them.
    PERFORM pg_advisory_xact_lock_shared(4, hashtext(of_project));
    SELECT snapshot INTO dropped FROM dropped_versions
        WHERE project = of_project AND snapshot = ANY (needed) ORDER BY snapshot LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a version was dropped' USING ERRCODE = 'EL006',
            DETAIL = json_build_array(encode(dropped, 'hex'));
    END IF;
    FOR step IN SELECT * FROM jsonb_array_elements(steps) LOOP
        next_head := decode(step ->> 'snapshot', 'hex');
        IF next_head <> at_head THEN
            reached := reached + 1;
            INSERT INTO landings (project, sequence, snapshot, parent, kind, agent, workspace, api_key, message,
                    request, counts, created)
                VALUES (of_project, reached, next_head, at_head, step ->> 'kind', step ->> 'agent',
                    step ->> 'workspace', step ->> 'key', step ->> 'message', step ->> 'request',
                    step ->> 'counts', moment);
            INSERT INTO versions (project, sequence, path, kind, origin, entry_before, entry_after, files, whole,
                    algorithm)
                SELECT of_project, reached, decode(path, 'hex'), kind, decode(origin, 'hex'), decode(before, 'hex'),
                    decode(after, 'hex'), files, whole, algorithm
                FROM jsonb_to_recordset(step -> 'changes') one (path text, kind text, origin text, before text,
                    after text, files bigint, whole boolean, algorithm text);
            INSERT INTO outbox (tenant, agent, kind, subject, at, data)
                VALUES (of_tenant, step ->> 'agent', 'project.landed', of_project, moment,
                    json_build_object('project', of_project, 'step', reached));
            at_head := next_head;
        ELSIF step ->> 'request' IS NOT NULL THEN
            -- A held step has no entry in the log, so its request is recorded here, where a retry finds it.
            INSERT INTO held_requests (project, request, head) VALUES (of_project, step ->> 'request', at_head);
        END IF;
        IF step -> 'reviews' <> '[]' THEN
            PERFORM land_reviews_1(of_tenant, of_project, moment, step);
        END IF;
        IF step -> 'base' <> 'null' THEN
            PERFORM land_base_1(of_tenant, of_project, moment, step);
        END IF;
    END LOOP;
    IF reached > project_now.sequence THEN
        UPDATE projects SET head = at_head, sequence = reached, updated = moment WHERE id = of_project;
    END IF;
    RETURN reached;
END
$$;

-- Changes reviews of a step and opens new ones, in this order: a change may close a review, and a new review
-- may be for the same path. `seen` is the version of the row that a change was computed from; it is NULL for
-- a new review, and for a further change of a review in the same landing.
CREATE FUNCTION land_reviews_1(of_tenant bytea, of_project text, moment bigint, step jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT * FROM jsonb_to_recordset(step -> 'reviews') review (
        is_new boolean, seen text, id text, workspace text, agent text, path text, kind text, base text, ours text,
        theirs text, base_snapshot text, ours_snapshot text, theirs_snapshot text, algorithm text, state text,
        detail text, created bigint, expires bigint, closed bigint, closed_by text, resolution text,
        successor text, reopened bigint, event text, data text)
    LOOP
        IF one.is_new THEN
            INSERT INTO reviews (id, tenant, project, workspace, agent, path, kind, base, ours, theirs,
                    base_snapshot, ours_snapshot, theirs_snapshot, algorithm, state, detail, created, expires,
                    closed, closed_by, resolution, successor, reopened)
                VALUES (one.id, of_tenant, of_project, one.workspace, one.agent, decode(one.path, 'hex'), one.kind,
                    decode(one.base, 'hex'), decode(one.ours, 'hex'), decode(one.theirs, 'hex'),
                    decode(one.base_snapshot, 'hex'), decode(one.ours_snapshot, 'hex'),
                    decode(one.theirs_snapshot, 'hex'), one.algorithm, one.state, one.detail, one.created,
                    one.expires, one.closed, one.closed_by, one.resolution, one.successor, one.reopened);
        ELSE
            UPDATE reviews SET base = decode(one.base, 'hex'), ours = decode(one.ours, 'hex'),
                theirs = decode(one.theirs, 'hex'), base_snapshot = decode(one.base_snapshot, 'hex'),
                ours_snapshot = decode(one.ours_snapshot, 'hex'),
                theirs_snapshot = decode(one.theirs_snapshot, 'hex'), state = one.state, detail = one.detail,
                expires = one.expires, closed = one.closed, closed_by = one.closed_by,
                resolution = one.resolution, successor = one.successor, reopened = one.reopened
                WHERE id = one.id AND tenant = of_tenant AND (one.seen IS NULL OR xmin::text = one.seen);
            IF NOT FOUND THEN
                RAISE EXCEPTION 'a review was changed since it was read' USING ERRCODE = 'EL009';
            END IF;
        END IF;
        IF one.event IS NOT NULL THEN
            INSERT INTO outbox (tenant, agent, kind, subject, at, data)
                VALUES (of_tenant, one.agent, one.event, of_project, moment, one.data);
        END IF;
    END LOOP;
END
$$;

-- Moves the base of the workspace of a step.
CREATE FUNCTION land_base_1(of_tenant bytea, of_project text, moment bigint, step jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    move jsonb := step -> 'base';
    own text := step ->> 'workspace';
BEGIN
    UPDATE workspaces SET base = decode(move ->> 'base', 'hex'), synced = decode(move ->> 'synced', 'hex'),
        merges = merges + 1, last_merge = moment, updated = moment
        WHERE tenant = of_tenant AND id = own AND project = of_project
            AND base = decode(move ->> 'expected', 'hex');
    IF NOT FOUND THEN
        PERFORM 1 FROM workspaces WHERE tenant = of_tenant AND id = own AND project = of_project;
        IF FOUND THEN
            RAISE EXCEPTION 'the workspace has another base' USING ERRCODE = 'EL008';
        END IF;
        RAISE EXCEPTION 'there is no such workspace' USING ERRCODE = 'EL007';
    END IF;
    DELETE FROM unsettled WHERE workspace = own
        AND path IN (SELECT decode(one, 'hex') FROM jsonb_array_elements_text(move -> 'settled') one);
END
$$;
