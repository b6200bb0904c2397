-- The store of a cluster. Everything is in the schema `store`, so that it can share a database with
-- the catalog. All keys begin with the tenant.
--
-- Advisory locks: (11, tenant) is held shared by commits, and alone when the phase of a collection
-- changes; (12, node) is held shared by commits, and alone when the node is declared lost; (13, 0)
-- orders the numbers of rounds.

-- The number of a tenant is 4 bytes in each row of the other tables, its id would be 16.
CREATE TABLE store.tenants (
    no int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bytea NOT NULL UNIQUE CHECK (octet_length(id) = 16)
);

-- A node is one opening of the store. State: 'l' live, 'x' lost, 'e' ended. `acked` is the last round
-- that the node has acted on. `beat` begins at random, and grows with each renewal.
CREATE TABLE store.nodes (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state "char" NOT NULL DEFAULT 'l',
    expires timestamptz NOT NULL,
    acked int8 NOT NULL,
    beat int8 NOT NULL
);

-- The collections of a tenant: the number of the last one, and its phase: 'i' idle, 'm' marking, 's'
-- sweeping, 'd' sweeping and objects were deleted. `removals` counts those that came to delete objects. `node`
-- and `token` name the collector. `marks` is the S3 file with the marks since the last full collection, NULL
-- if the last collection did not finish.
CREATE TABLE store.gc (
    tenant int4 PRIMARY KEY REFERENCES store.tenants,
    number int4 NOT NULL DEFAULT 0,
    phase "char" NOT NULL DEFAULT 'i',
    removals int4 NOT NULL DEFAULT 0,
    node int4,
    token int8,
    marks bytea
);

-- S3 files: 's' staged, before the upload; 'l' live; 'm' marks of collections. `live` counts the bytes of
-- live objects. The key of a file is never used twice.
CREATE TABLE store.files (
    id int8 PRIMARY KEY,
    tenant int4 NOT NULL,
    key bytea NOT NULL CHECK (octet_length(key) = 16),
    state "char" NOT NULL DEFAULT 's',
    node int4 NOT NULL,
    size int8 NOT NULL DEFAULT 0,
    live int8 NOT NULL DEFAULT 0,
    made timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX files_by_key ON store.files (tenant, key);
CREATE INDEX files_unused ON store.files (id) WHERE state <> 'l' OR live = 0;

-- Files to delete from S3 after a moment. No other row names them, and none will.
CREATE TABLE store.doomed (
    key bytea PRIMARY KEY,
    tenant int4 NOT NULL,
    after timestamptz NOT NULL
);

CREATE INDEX doomed_by_time ON store.doomed (after);

-- Runs of objects: in `bytes`, or in a file from `base` on. Each commit has one, so that a repeated call
-- finds it. `removals` is that of the tenant when the pack was added: as long as it is the same, all objects
-- of the pack are stored, here or elsewhere. `nodes` is true for a pack in a file that has no chunks.
CREATE TABLE store.packs (
    tenant int4 NOT NULL,
    id int8 NOT NULL,
    file int8,
    base int8 NOT NULL DEFAULT 0,
    size int4 NOT NULL,
    objects int4 NOT NULL,
    live int4 NOT NULL,
    removals int4 NOT NULL,
    nodes boolean NOT NULL DEFAULT false,
    made timestamptz NOT NULL DEFAULT now(),
    bytes bytea,
    PRIMARY KEY (tenant, id)
);

-- They are compressed already, and parts of them are read.
ALTER TABLE store.packs ALTER bytes SET STORAGE EXTERNAL;

CREATE INDEX packs_inline ON store.packs (tenant, made) INCLUDE (size) WHERE file IS NULL;
CREATE INDEX packs_of_file ON store.packs (tenant, file) WHERE file IS NOT NULL;

-- The node that bundles packs and deletes files, until `expires`. `compared` is the time of the last
-- comparison of the files with the bucket.
CREATE TABLE store.upkeep (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    node int4 NOT NULL,
    expires timestamptz NOT NULL,
    compared timestamptz NOT NULL DEFAULT now()
);

-- `place` is the position in the index of the pack. `seen` is the number of the last collection during
-- which the object was written or found.
CREATE TABLE store.objects (
    pack int8 NOT NULL,
    tenant int4 NOT NULL,
    start int4 NOT NULL,
    size int4 NOT NULL,
    seen int4 NOT NULL,
    place int2 NOT NULL,
    kind "char" NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (tenant, hash)
) PARTITION BY HASH (tenant);

DO $$
BEGIN
    FOR i IN 0..63 LOOP
        EXECUTE format(
            'CREATE TABLE store.objects_%s PARTITION OF store.objects FOR VALUES WITH (MODULUS 64, REMAINDER %s)',
            i, i
        );
    END LOOP;
END
$$;

-- `root` is the hash of the root directory, NULL if it is empty. `condemned` is the number of the collection
-- that will delete the snapshot.
CREATE TABLE store.snapshots (
    tenant int4 NOT NULL,
    seen int4 NOT NULL,
    condemned int4,
    made timestamptz NOT NULL DEFAULT now(),
    id bytea NOT NULL,
    root bytea,
    record bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX snapshots_by_time ON store.snapshots (tenant, made);
CREATE INDEX snapshots_by_collection ON store.snapshots (tenant, seen);
CREATE INDEX snapshots_condemned ON store.snapshots (tenant, id) WHERE condemned IS NOT NULL;

CREATE TABLE store.refs (
    tenant int4 NOT NULL,
    name text COLLATE "C" NOT NULL,
    snapshot bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- The writers of a node and tenant that began in the same collection.
CREATE TABLE store.sessions (
    id int8 PRIMARY KEY,
    tenant int4 NOT NULL,
    node int4 NOT NULL,
    number int4 NOT NULL
);

CREATE INDEX sessions_of_tenant ON store.sessions (tenant, number);
CREATE INDEX sessions_of_node ON store.sessions (node);

-- Calls to all nodes: a collection opens, or has condemned snapshots and asks who holds them.
CREATE TABLE store.rounds (
    seq int8 PRIMARY KEY,
    tenant int4 NOT NULL,
    number int4 NOT NULL,
    opens boolean NOT NULL
);

-- The answers to a round: snapshots that a node holds when a collection opens, and condemned ones among
-- those that it holds, or has held since then.
CREATE TABLE store.vetoes (
    tenant int4 NOT NULL,
    seq int8 NOT NULL,
    snapshot bytea NOT NULL,
    PRIMARY KEY (tenant, seq, snapshot)
);

-- Returns the number of a tenant, which is recorded if it is new.
CREATE FUNCTION store.tenant_1(p_id bytea) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE found_no int4;
BEGIN
    SELECT no INTO found_no FROM store.tenants WHERE id = p_id;
    IF found_no IS NULL THEN
        INSERT INTO store.tenants (id) VALUES (p_id) ON CONFLICT DO NOTHING RETURNING no INTO found_no;
        IF found_no IS NULL THEN
            -- Another session was faster.
            SELECT no INTO STRICT found_no FROM store.tenants WHERE id = p_id;
        END IF;
        INSERT INTO store.gc (tenant) VALUES (found_no) ON CONFLICT DO NOTHING;
    END IF;
    RETURN found_no;
END
$$;

-- Takes the locks of a change by a node, and returns the state of the tenant's collections. Fails with
-- EL003 if the node was declared lost.
CREATE FUNCTION store.enter_1(
    p_node int4, p_tenant int4, OUT number int4, OUT phase "char", OUT removals int4
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(11, p_tenant), pg_advisory_xact_lock_shared(12, p_node);
    SELECT gc.number, gc.phase, gc.removals INTO number, phase, removals FROM store.gc
        WHERE gc.tenant = p_tenant
            AND EXISTS (SELECT FROM store.nodes WHERE nodes.id = p_node AND nodes.state = 'l');
    IF number IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'EL003', MESSAGE = 'this node was declared lost';
    END IF;
END
$$;

-- Adds the objects of a pack, and returns how many are new. The arrays are in the order of the hashes, so
-- that no two calls wait for each other.
--
-- During a collection, `seen` of those that are stored is raised, once for each collection. `ON CONFLICT DO
-- UPDATE` would lock them each time, also those that need no change: commits with common objects would wait
-- for each other.
CREATE FUNCTION store.add_objects_1(
    p_tenant int4, p_pack int8, p_number int4, p_phase "char",
    p_hashes bytea[], p_kinds "char"[], p_starts int4[], p_sizes int4[], OUT added int4
) LANGUAGE plpgsql AS $$
DECLARE more int4;
BEGIN
    added := 0;
    LOOP
        INSERT INTO store.objects (pack, tenant, start, size, seen, place, kind, hash)
            SELECT p_pack, p_tenant, o.start, o.size, p_number, o.place - 1, o.kind, o.hash
            FROM unnest(p_starts, p_sizes, p_kinds, p_hashes) WITH ORDINALITY AS o (start, size, kind, hash, place)
            ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS more = ROW_COUNT;
        added := added + more;
        IF p_phase = 'i' THEN
            RETURN;
        END IF;
        EXIT WHEN more = array_length(p_hashes, 1);
        PERFORM FROM store.objects AS o
            WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes) AND o.seen < p_number
            ORDER BY o.hash FOR UPDATE;
        UPDATE store.objects AS o SET seen = p_number
            WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes) AND o.seen < p_number;
        -- The sweep may have deleted one that the insertion has found.
        EXIT WHEN (
            SELECT count(*) FROM store.objects AS o
            WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes) AND o.seen >= p_number
        ) = array_length(p_hashes, 1);
    END LOOP;
END
$$;

-- Commits a pack, snapshots and moves of refs. A repeated call with the same pack does nothing.
--
-- `p_checks` has a letter for the value that each ref must have: 'a' any, 'n' none, 's' `p_expected`.
-- The refs are in the order of their names, so that no two calls wait for each other; `p_places` has their
-- places in the commit. Fails with EL001 for the first in that order that has another value, which is in
-- the detail as hexadecimal digits; with EL002 if
-- a root is not stored; with EL003 if the node was declared lost.
CREATE FUNCTION store.commit_1(
    p_node int4, p_tenant int4, p_pack int8, p_bytes bytea,
    p_hashes bytea[], p_kinds "char"[], p_starts int4[], p_sizes int4[],
    p_roots bytea[], p_root_kinds "char"[],
    p_ids bytea[], p_trees bytea[], p_records bytea[],
    p_names text[], p_checks "char"[], p_expected bytea[], p_targets bytea[], p_places int4[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    state record;
    current bytea;
    moved int4;
    count int4 := coalesce(array_length(p_hashes, 1), 0);
    added int4;
BEGIN
    BEGIN
        state := store.enter_1(p_node, p_tenant);
    EXCEPTION WHEN SQLSTATE 'EL003' THEN
        -- Nothing of a lost node is still under way, so this is the outcome of an earlier call.
        IF EXISTS (SELECT FROM store.packs WHERE tenant = p_tenant AND id = p_pack) THEN
            RETURN;
        END IF;
        RAISE;
    END;
    -- Waits for an earlier call that is still under way.
    INSERT INTO store.packs (tenant, id, size, objects, live, removals, bytes)
        VALUES (p_tenant, p_pack, coalesce(length(p_bytes), 0), count, count, state.removals, p_bytes)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(p_roots, p_root_kinds) AS root (hash, kind)
        WHERE NOT EXISTS (
            SELECT FROM store.objects AS o
            WHERE o.tenant = p_tenant AND o.hash = root.hash AND o.kind = root.kind
        )
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'EL002', MESSAGE = 'the root of a snapshot is not stored';
    END IF;
    FOR i IN 1..coalesce(array_length(p_names, 1), 0) LOOP
        IF p_checks[i] = 'n' AND p_targets[i] IS NOT NULL THEN
            INSERT INTO store.refs VALUES (p_tenant, p_names[i], p_targets[i]) ON CONFLICT DO NOTHING;
        ELSIF p_checks[i] = 'n' THEN
            PERFORM FROM store.refs WHERE tenant = p_tenant AND name = p_names[i];
            FOUND := NOT FOUND;
        ELSIF p_checks[i] = 's' AND p_targets[i] IS NOT NULL THEN
            UPDATE store.refs SET snapshot = p_targets[i]
                WHERE tenant = p_tenant AND name = p_names[i] AND snapshot = p_expected[i];
        ELSIF p_checks[i] = 's' THEN
            DELETE FROM store.refs
                WHERE tenant = p_tenant AND name = p_names[i] AND snapshot = p_expected[i];
        ELSIF p_targets[i] IS NOT NULL THEN
            INSERT INTO store.refs VALUES (p_tenant, p_names[i], p_targets[i])
                ON CONFLICT (tenant, name) DO UPDATE SET snapshot = excluded.snapshot;
        ELSE
            DELETE FROM store.refs WHERE tenant = p_tenant AND name = p_names[i];
            FOUND := true;
        END IF;
        IF NOT FOUND AND (moved IS NULL OR p_places[i] < p_places[moved]) THEN
            moved := i;
        END IF;
    END LOOP;
    IF moved IS NOT NULL THEN
        SELECT snapshot INTO current FROM store.refs WHERE tenant = p_tenant AND name = p_names[moved];
        RAISE EXCEPTION USING ERRCODE = 'EL001', MESSAGE = p_names[moved],
            DETAIL = coalesce(encode(current, 'hex'), '');
    END IF;
    IF count > 0 THEN
        added := store.add_objects_1(
            p_tenant, p_pack, state.number, state.phase, p_hashes, p_kinds, p_starts, p_sizes
        );
        IF added < count THEN
            UPDATE store.packs SET live = added WHERE tenant = p_tenant AND id = p_pack;
        END IF;
    END IF;
    IF array_length(p_ids, 1) > 0 THEN
        INSERT INTO store.snapshots AS there (tenant, seen, id, root, record)
            SELECT p_tenant, state.number, s.id, s.root, s.record
            FROM unnest(p_ids, p_trees, p_records) AS s (id, root, record)
            ON CONFLICT (tenant, id) DO UPDATE SET seen = excluded.seen, condemned = NULL
                WHERE there.seen < excluded.seen OR there.condemned IS NOT NULL;
    END IF;
END
$$;

-- Publishes a pack that was uploaded as a staged file. A repeated call does nothing.
CREATE FUNCTION store.publish_1(
    p_node int4, p_tenant int4, p_file int8, p_pack int8, p_size int4, p_nodes boolean,
    p_hashes bytea[], p_kinds "char"[], p_starts int4[], p_sizes int4[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    state record;
    count int4 := array_length(p_hashes, 1);
    added int4;
BEGIN
    state := store.enter_1(p_node, p_tenant);
    INSERT INTO store.packs (tenant, id, file, size, objects, live, removals, nodes)
        VALUES (p_tenant, p_pack, p_file, p_size, count, count, state.removals, p_nodes)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    added := store.add_objects_1(
        p_tenant, p_pack, state.number, state.phase, p_hashes, p_kinds, p_starts, p_sizes
    );
    IF added < count THEN
        UPDATE store.packs SET live = added WHERE tenant = p_tenant AND id = p_pack;
    END IF;
    PERFORM store.use_file_1(p_file, 'l', p_size, p_size::int8 * added / count);
END
$$;

-- Puts a staged file to use. Fails with EL004 if it is doomed.
CREATE FUNCTION store.use_file_1(p_file int8, p_state "char", p_size int8, p_live int8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE store.files SET state = p_state, size = p_size, live = p_live WHERE id = p_file AND state = 's';
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'EL004', MESSAGE = 'the upload took too long, and its file is doomed';
    END IF;
END
$$;

-- Makes a node the one that bundles packs and deletes files, and returns whether it is.
CREATE FUNCTION store.lead_upkeep_1(p_node int4, p_lease interval) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO store.upkeep AS b (node, expires) VALUES (p_node, clock_timestamp() + p_lease)
        ON CONFLICT (one) DO UPDATE SET node = excluded.node, expires = excluded.expires
        WHERE b.node = p_node OR b.expires < clock_timestamp();
    RETURN FOUND;
END
$$;

-- Moves packs into a file that was uploaded with their bytes. Fails with EL004 if another process was
-- faster, or a collection is running. A repeated call does nothing.
CREATE FUNCTION store.bundle_1(
    p_node int4, p_tenant int4, p_file int8, p_size int8, p_packs int8[], p_bases int8[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    state record;
    count int4;
    alive int8;
BEGIN
    state := store.enter_1(p_node, p_tenant);
    -- In the order of the ids, so that no two calls wait for each other.
    PERFORM FROM store.packs WHERE tenant = p_tenant AND id = ANY (p_packs) AND bytes IS NOT NULL
        ORDER BY id FOR UPDATE;
    GET DIAGNOSTICS count = ROW_COUNT;
    IF EXISTS (SELECT FROM store.files AS f WHERE f.id = p_file AND f.state = 'l') THEN
        RETURN;
    END IF;
    IF state.phase <> 'i' OR count < array_length(p_packs, 1) THEN
        RAISE EXCEPTION USING ERRCODE = 'EL004', MESSAGE = 'the packs cannot be bundled now';
    END IF;
    WITH moved AS (
        UPDATE store.packs AS p SET file = p_file, base = b.base, bytes = NULL
        FROM unnest(p_packs, p_bases) AS b (pack, base)
        WHERE p.tenant = p_tenant AND p.id = b.pack
        RETURNING CASE WHEN p.live > 0 THEN greatest(p.size::int8 * p.live / p.objects, 1) ELSE 0 END AS live
    )
    SELECT sum(moved.live) INTO alive FROM moved;
    PERFORM store.use_file_1(p_file, 'l', p_size, alive);
END
$$;

-- Dooms up to `p_limit` files that nothing needs, and returns their number: those without a live object; the
-- marks of earlier collections; staged ones of nodes that ended or are lost, and those that were staged a day
-- ago. These cannot be put to use any more: `enter_1` rejects the node, or `use_file_1` the file.
CREATE FUNCTION store.doom_1(p_grace interval, p_limit int4) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE count int4;
BEGIN
    WITH unused AS (
        SELECT f.id FROM store.files AS f
        LEFT JOIN store.nodes AS n ON n.id = f.node
        LEFT JOIN store.gc ON gc.tenant = f.tenant
        WHERE (f.state <> 'l' OR f.live = 0) AND CASE f.state
            WHEN 'l' THEN true
            WHEN 'm' THEN f.key IS DISTINCT FROM gc.marks
            ELSE n.state IS DISTINCT FROM 'l' OR f.made < now() - interval '1 day'
        END
        ORDER BY f.id LIMIT p_limit FOR UPDATE OF f SKIP LOCKED
    ), gone AS (
        DELETE FROM store.files AS f USING unused WHERE f.id = unused.id RETURNING f.id, f.tenant, f.key
    ), empty AS (
        DELETE FROM store.packs AS p USING gone WHERE p.tenant = gone.tenant AND p.file = gone.id
    )
    INSERT INTO store.doomed (key, tenant, after) SELECT gone.key, gone.tenant, now() + p_grace FROM gone;
    GET DIAGNOSTICS count = ROW_COUNT;
    RETURN count;
END
$$;

-- Deletes rows that nothing needs: packs in the database without a live object, whose commits are not repeated
-- any more, and nodes that ended.
CREATE FUNCTION store.tidy_1(p_limit int4) RETURNS void LANGUAGE sql AS $$
    DELETE FROM store.packs AS p USING (
        SELECT tenant, id FROM store.packs
        WHERE file IS NULL AND live = 0 AND made < now() - interval '1 hour'
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) AS dead WHERE p.tenant = dead.tenant AND p.id = dead.id;
    DELETE FROM store.nodes AS n WHERE n.state <> 'l' AND n.expires < now() - interval '1 day'
        AND NOT EXISTS (SELECT FROM store.files AS f WHERE f.node = n.id AND f.state = 's')
        AND NOT EXISTS (SELECT FROM store.gc WHERE gc.phase <> 'i');
$$;

-- Returns which objects are stored. During a collection, they are kept.
CREATE FUNCTION store.find_1(p_node int4, p_tenant int4, p_hashes bytea[])
    RETURNS TABLE (hash bytea, kind "char") LANGUAGE plpgsql AS $$
DECLARE state record;
BEGIN
    state := store.enter_1(p_node, p_tenant);
    IF state.phase <> 'i' THEN
        -- In the order of the hashes, as in `add_objects_1`.
        PERFORM FROM store.objects AS o
            WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes) AND o.seen < state.number
            ORDER BY o.hash FOR UPDATE;
        UPDATE store.objects AS o SET seen = state.number
            WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes) AND o.seen < state.number;
    END IF;
    RETURN QUERY SELECT o.hash, o.kind FROM store.objects AS o
        WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes);
END
$$;

-- Registers a node for `p_lease`.
CREATE FUNCTION store.join_1(p_lease interval, p_beat int8, OUT id int4) LANGUAGE plpgsql AS $$
BEGIN
    -- A round is either before the node's registration, or is one that the node acts on.
    PERFORM pg_advisory_xact_lock(13, 0);
    INSERT INTO store.nodes (expires, acked, beat)
        VALUES (clock_timestamp() + p_lease, (SELECT coalesce(max(seq), 0) FROM store.rounds), p_beat)
        RETURNING nodes.id INTO id;
END
$$;

-- Renews a node, and returns the rounds that it has not acted on. `p_beat` is that of the last renewal with
-- an answer. Another one in the row means that the database is one of an earlier moment: there, the node has
-- not renewed yet, or its id belongs to another process by now.
CREATE FUNCTION store.renew_1(p_node int4, p_lease interval, p_beat int8)
    RETURNS TABLE (seq int8, tenant int4, number int4, opens boolean) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE store.nodes SET expires = clock_timestamp() + p_lease, beat = p_beat + 1
        WHERE id = p_node AND state = 'l' AND beat IN (p_beat, p_beat + 1);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'EL003', MESSAGE = 'this node was declared lost';
    END IF;
    RETURN QUERY SELECT r.seq, r.tenant, r.number, r.opens FROM store.rounds AS r, store.nodes AS n
        WHERE n.id = p_node AND r.seq > n.acked ORDER BY r.seq;
END
$$;

-- Declares nodes lost that did not renew in time, and ends their sessions and collections.
CREATE FUNCTION store.lose_1() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lost int4;
    abandoned int4;
BEGIN
    FOR lost IN SELECT id FROM store.nodes WHERE state = 'l' AND expires < clock_timestamp() ORDER BY id LOOP
        -- After the changes of the node that are under way.
        PERFORM pg_advisory_xact_lock(12, lost);
        UPDATE store.nodes SET state = 'x' WHERE id = lost AND state = 'l' AND expires < clock_timestamp();
        CONTINUE WHEN NOT FOUND;
        DELETE FROM store.sessions WHERE node = lost;
        FOR abandoned IN SELECT tenant FROM store.gc WHERE node = lost AND phase <> 'i' FOR UPDATE LOOP
            PERFORM store.abandon_1(abandoned);
        END LOOP;
    END LOOP;
END
$$;

-- Ends a collection. Its condemned snapshots stay, unless objects were deleted: those may be theirs, and no
-- process holds these snapshots.
CREATE FUNCTION store.abandon_1(p_tenant int4) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM store.snapshots AS s USING store.gc
        WHERE gc.tenant = p_tenant AND gc.phase = 'd' AND s.tenant = p_tenant AND s.condemned IS NOT NULL;
    UPDATE store.snapshots SET condemned = NULL WHERE tenant = p_tenant AND condemned IS NOT NULL;
    DELETE FROM store.vetoes WHERE tenant = p_tenant;
    UPDATE store.gc SET phase = 'i', marks = NULL, token = NULL WHERE tenant = p_tenant;
END
$$;

-- Keeps a collection from being taken over until the end of the transaction. Fails with EL004 if it was.
CREATE FUNCTION store.keep_token_1(p_tenant int4, p_token int8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM store.gc WHERE tenant = p_tenant AND token = p_token FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'EL004', MESSAGE = 'this collection was taken over by another process';
    END IF;
END
$$;

-- Condemns snapshots that were not committed since the collection began.
CREATE FUNCTION store.condemn_1(p_tenant int4, p_token int8, p_number int4, p_ids bytea[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM store.keep_token_1(p_tenant, p_token);
    UPDATE store.snapshots SET condemned = p_number
        WHERE tenant = p_tenant AND id = ANY (p_ids) AND seen < p_number;
END
$$;

-- The snapshots are not condemned any more.
CREATE FUNCTION store.pardon_1(p_tenant int4, p_token int8, p_ids bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM store.keep_token_1(p_tenant, p_token);
    UPDATE store.snapshots SET condemned = NULL WHERE tenant = p_tenant AND id = ANY (p_ids);
END
$$;

-- Calls all nodes to veto condemned snapshots; returns the number of the round.
CREATE FUNCTION store.call_closing_1(p_tenant int4, p_token int8, p_number int4) RETURNS int8
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM store.keep_token_1(p_tenant, p_token);
    RETURN store.call_1(p_tenant, p_number, false);
END
$$;

-- Begins to sweep. Fails with EL004 if a node has ended between its answers to the opening and to the
-- closing: the snapshots that it held are not known, and its commits may need them.
CREATE FUNCTION store.begin_sweep_1(p_tenant int4, p_token int8, p_opening int8, p_closing int8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM store.keep_token_1(p_tenant, p_token);
    IF EXISTS (
        SELECT FROM store.nodes AS n
        WHERE n.state <> 'l' AND n.acked >= p_opening AND n.acked < p_closing
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'EL004',
            MESSAGE = 'a process ended during this collection; begin another one';
    END IF;
    UPDATE store.gc SET phase = 's' WHERE tenant = p_tenant AND token = p_token AND phase = 'm';
END
$$;

-- Ends a node in an orderly way.
CREATE FUNCTION store.leave_1(p_node int4) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- After the changes of the node that are under way: one may add a session.
    PERFORM pg_advisory_xact_lock(12, p_node);
    UPDATE store.nodes SET state = 'e' WHERE id = p_node AND state = 'l';
    DELETE FROM store.sessions WHERE node = p_node;
END
$$;

-- Ends a collection that its process aborted, unless another one has taken over.
CREATE FUNCTION store.abort_1(p_tenant int4, p_token int8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM store.gc WHERE tenant = p_tenant AND token = p_token FOR UPDATE;
    IF FOUND THEN
        PERFORM store.abandon_1(p_tenant);
    END IF;
END
$$;

-- Calls all nodes; returns the number of the round.
CREATE FUNCTION store.call_1(p_tenant int4, p_number int4, p_opens boolean) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE following int8;
BEGIN
    PERFORM pg_advisory_xact_lock(13, 0);
    SELECT coalesce(max(seq), 0) + 1 INTO following FROM store.rounds;
    INSERT INTO store.rounds VALUES (following, p_tenant, p_number, p_opens);
    RETURN following;
END
$$;

-- Counts the live nodes that have not acted on a round.
CREATE FUNCTION store.silent_1(p_seq int8) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN
    PERFORM store.lose_1();
    RETURN (SELECT count(*) FROM store.nodes AS n WHERE n.state = 'l' AND n.acked < p_seq);
END
$$;

-- Begins a collection. Fails with EL004 if another one is running, and with 55P03 if commits do not let
-- it in soon. `p_ended` are the collections of this node that ended without a word.
CREATE FUNCTION store.collect_1(
    p_node int4, p_tenant int4, p_token int8, p_ended int8[],
    OUT number int4, OUT seq int8, OUT marks bytea
) LANGUAGE plpgsql AS $$
DECLARE earlier store.gc%ROWTYPE;
BEGIN
    PERFORM set_config('lock_timeout', '100', true);
    PERFORM pg_advisory_xact_lock(11, p_tenant);
    PERFORM store.lose_1();
    SELECT * INTO STRICT earlier FROM store.gc WHERE gc.tenant = p_tenant FOR UPDATE;
    marks := earlier.marks;
    IF earlier.phase <> 'i' THEN
        IF NOT earlier.token = ANY (p_ended)
            AND EXISTS (SELECT FROM store.nodes WHERE id = earlier.node AND state = 'l')
        THEN
            RAISE EXCEPTION USING ERRCODE = 'EL004', MESSAGE = 'another collection of this tenant is running';
        END IF;
        marks := NULL;
        PERFORM store.abandon_1(p_tenant);
    END IF;
    UPDATE store.gc SET number = gc.number + 1, phase = 'm', node = p_node, token = p_token
        WHERE gc.tenant = p_tenant RETURNING gc.number INTO number;
    DELETE FROM store.rounds WHERE rounds.tenant = p_tenant
        AND rounds.seq < (SELECT max(rounds.seq) FROM store.rounds)
        AND rounds.seq <= (SELECT min(acked) FROM store.nodes WHERE state = 'l');
    seq := store.call_1(p_tenant, number, true);
END
$$;

-- Begins a session of a writer, and returns the number of the last collection.
CREATE FUNCTION store.begin_session_1(p_id int8, p_node int4, p_tenant int4) RETURNS int4
LANGUAGE plpgsql AS $$
DECLARE state record;
BEGIN
    state := store.enter_1(p_node, p_tenant);
    INSERT INTO store.sessions (id, tenant, node, number) VALUES (p_id, p_tenant, p_node, state.number);
    RETURN state.number;
END
$$;

-- Deletes objects that were not seen since collection `p_before` began, and returns them. A file without a
-- live object has `live` 0.
CREATE FUNCTION store.delete_objects_1(p_tenant int4, p_hashes bytea[], p_before int4)
RETURNS TABLE (hash bytea) LANGUAGE plpgsql AS $$
BEGIN
    -- In the order of the hashes, as commits write them.
    PERFORM FROM store.objects AS o
        WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes) AND o.seen < p_before
        ORDER BY o.hash FOR UPDATE;
    RETURN QUERY
        WITH gone AS (
            DELETE FROM store.objects AS o
            WHERE o.tenant = p_tenant AND o.hash = ANY (p_hashes) AND o.seen < p_before
            RETURNING o.hash, o.pack, o.size
        ), by_pack AS (
            SELECT gone.pack, count(*)::int4 AS objects, sum(gone.size)::int8 AS bytes FROM gone GROUP BY gone.pack
        ), packs AS (
            UPDATE store.packs AS p SET live = p.live - b.objects FROM by_pack AS b
            WHERE p.tenant = p_tenant AND p.id = b.pack
            RETURNING p.id, p.file, p.live, b.bytes
        ), by_file AS (
            SELECT packs.file, sum(packs.bytes)::int8 AS bytes, max(packs.live) AS live,
                array_agg(packs.id) AS packs
            FROM packs WHERE packs.file IS NOT NULL GROUP BY packs.file
        ), files AS (
            UPDATE store.files AS f SET live = CASE
                WHEN b.live = 0 AND NOT EXISTS (
                    SELECT FROM store.packs AS other
                    WHERE other.tenant = p_tenant AND other.file = f.id AND other.live > 0
                        AND NOT other.id = ANY (b.packs)
                ) THEN 0
                ELSE greatest(f.live - b.bytes, 1)
            END
            FROM by_file AS b WHERE f.id = b.file
        )
        SELECT gone.hash FROM gone;
END
$$;

-- Deletes objects for a collection, and returns them. The caller holds no marks for them.
CREATE FUNCTION store.sweep_1(p_tenant int4, p_token int8, p_hashes bytea[])
RETURNS TABLE (hash bytea) LANGUAGE plpgsql AS $$
DECLARE began int4;
BEGIN
    UPDATE store.gc SET phase = 'd', removals = gc.removals + 1
        WHERE gc.tenant = p_tenant AND gc.token = p_token AND gc.phase = 's';
    SELECT gc.number INTO began FROM store.gc
        WHERE gc.tenant = p_tenant AND gc.token = p_token AND gc.phase = 'd' FOR SHARE;
    IF began IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'EL004', MESSAGE = 'this collection was taken over by another process';
    END IF;
    RETURN QUERY SELECT d.hash FROM store.delete_objects_1(p_tenant, p_hashes, began) AS d;
END
$$;

-- Deletes objects for a repair, which adds some of them again. Marks would not know the new ones, so a
-- running collection ends, and the next one is full.
CREATE FUNCTION store.repair_1(p_tenant int4, p_hashes bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM store.gc WHERE tenant = p_tenant FOR UPDATE;
    PERFORM store.abandon_1(p_tenant);
    UPDATE store.gc SET removals = gc.removals + 1 WHERE gc.tenant = p_tenant;
    PERFORM store.delete_objects_1(p_tenant, p_hashes, 2147483647);
END
$$;

-- Ends a collection whose marks are in a file.
CREATE FUNCTION store.finish_1(p_tenant int4, p_token int8, p_file int8, p_key bytea, p_size int8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM store.gc
        WHERE tenant = p_tenant AND token = p_token AND phase IN ('s', 'd') FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'EL004', MESSAGE = 'this collection was taken over by another process';
    END IF;
    PERFORM store.abandon_1(p_tenant);
    PERFORM store.use_file_1(p_file, 'm', p_size, 0);
    UPDATE store.gc SET marks = p_key WHERE tenant = p_tenant;
END
$$;
