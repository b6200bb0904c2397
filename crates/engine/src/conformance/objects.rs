//! Objects: separation of tenants, order of results, immutability.

use bytes::Bytes;
use elevo_objects::{Kind, MAX_CHUNK, ObjectKey};

use super::model::Random;
use super::{
    ALICE, BOB, assert_refused, bare, chunk, commit, directory, get, id, is_stored, keys, object,
    of_references, of_snapshots, put, put_for, snapshot, update,
};
use crate::store::{Commit, Expected, Object, Store};

/// Promise 1: a tenant's objects, snapshots and refs are separate.
pub async fn nothing_crosses_tenants(store: &impl Store) {
    let (content, root) = (chunk("secret"), directory("secret"));
    let record = snapshot(Some(root.key.hash), "secret");
    let commit = Commit {
        objects: vec![content.clone(), root.clone()],
        snapshots: vec![record.clone()],
        references: vec![update("head", Expected::Absent, Some(id(&record)))],
        after: Vec::new(),
    };
    store.commit(ALICE, commit.clone()).await.expect("commit");
    assert_eq!(get(store, BOB, &content).await, None);
    assert_eq!(get(store, BOB, &root).await, None);
    assert!(!is_stored(store, BOB, id(&record)).await);
    assert_eq!(store.list_snapshots(BOB, None, 9).await.expect("list"), []);
    assert_eq!(store.reference(BOB, "head").await.expect("reference"), None);
    assert_eq!(
        store.list_references(BOB, "", None, 9).await.expect("list"),
        []
    );

    assert_refused(store.commit(BOB, of_snapshots(vec![record.clone()])).await);
    store
        .commit(BOB, commit)
        .await
        .expect("the reference is absent for the other tenant");
    let removal = of_references(vec![update("head", Expected::At(id(&record)), None)]);
    store.commit(BOB, removal).await.expect("commit");
    assert_eq!(
        store.reference(ALICE, "head").await.expect("reference"),
        Some(id(&record))
    );
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        [id(&record)]
    );
}

/// Promise 2, with repeated keys, unknown keys and mixed kinds.
pub async fn results_keep_the_order_of_the_keys(store: &impl Store) {
    let stored: Vec<_> = (0..40_u8)
        .map(|n| {
            object(
                [Kind::Chunk, Kind::Directory, Kind::Times][usize::from(n % 3)],
                vec![n],
            )
        })
        .collect();
    put_for(store, ALICE, stored.clone()).await;
    let missing = chunk("missing");
    let mut asked: Vec<_> = stored.iter().rev().cloned().collect();
    asked.insert(3, missing.clone());
    asked.extend(stored.iter().take(5).cloned());
    asked.extend([missing.clone(), missing.clone()]);

    let found = store.get(ALICE, &keys(&asked)).await.expect("get");
    let contains = store
        .contains(ALICE, &keys(&asked))
        .await
        .expect("contains");
    assert_eq!((found.len(), contains.len()), (asked.len(), asked.len()));
    for ((object, data), contained) in asked.iter().zip(found).zip(contains) {
        let expected = (object.key != missing.key).then(|| object.data.clone());
        assert_eq!(
            (contained, data),
            (expected.is_some(), expected),
            "{:?}",
            object.key
        );
    }

    let snapshots: Vec<_> = ["a", "b", "c"].map(bare).into();
    let ids = commit(store, of_snapshots(snapshots.clone())).await;
    assert_eq!(
        ids,
        snapshots.iter().map(id).collect::<Vec<_>>(),
        "ids in the commit's order"
    );
    let unknown = id(&bare("unknown"));
    let asked = [ids[2], unknown, ids[0], ids[2]];
    let found = store.snapshots(ALICE, &asked).await.expect("snapshots");
    let [a, _, c] = &snapshots[..] else {
        unreachable!()
    };
    assert_eq!(
        found,
        [Some(c.clone()), None, Some(a.clone()), Some(c.clone())]
    );
}

/// An empty store has nothing.
pub async fn an_empty_store_has_nothing(store: &impl Store) {
    assert_eq!(get(store, ALICE, &chunk("x")).await, None);
    assert!(!is_stored(store, ALICE, id(&bare("x"))).await);
    assert_eq!(store.reference(ALICE, "x").await.expect("reference"), None);
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        []
    );
    assert_eq!(
        store
            .list_references(ALICE, "", None, 9)
            .await
            .expect("list"),
        []
    );
}

/// Promise 3, by `put`, by `commit`, and twice in one call.
pub async fn putting_an_object_again_changes_nothing(store: &impl Store) {
    let object = chunk("once");
    put(store, &[&object, &object]).await;
    put(store, &[&object]).await;
    let again = Commit {
        objects: vec![object.clone(), object.clone()],
        ..Commit::default()
    };
    assert_eq!(commit(store, again).await, []);
    assert_eq!(get(store, ALICE, &object).await, Some(object.data));
}

/// The kind is part of the key, for every hash.
pub async fn an_object_is_found_only_as_the_kind_it_was_put_as(store: &impl Store) {
    let kinds = [
        Kind::Chunk,
        Kind::Directory,
        Kind::Times,
        Kind::ChunkList,
        Kind::Snapshot,
    ];
    for kind in &kinds[..4] {
        let object = object(*kind, "bytes");
        put(store, &[&object]).await;
        for other in kinds.iter().filter(|other| *other != kind) {
            let key = ObjectKey {
                kind: *other,
                hash: object.key.hash,
            };
            let asked = Object {
                key,
                data: Bytes::new(),
            };
            assert_eq!(
                get(store, ALICE, &asked).await,
                None,
                "{kind:?} as {other:?}"
            );
        }
    }
    let record = bare("x");
    let hash = commit(store, of_snapshots(vec![record])).await[0].0;
    let asked = Object {
        key: ObjectKey {
            kind: Kind::Snapshot,
            hash,
        },
        data: Bytes::new(),
    };
    assert_eq!(
        get(store, ALICE, &asked).await,
        None,
        "snapshots are not objects"
    );
}

/// Snapshots are stored by commits, which check their roots.
pub async fn a_snapshot_is_not_put_as_an_object(store: &impl Store) {
    let (_, data) = bare("x").encode().expect("within limits");
    let objects = vec![object(Kind::Snapshot, data)];
    let writer = store.writing(ALICE).await.expect("a writer");
    assert_refused(store.put(ALICE, &writer, objects.clone()).await);
    assert_refused(
        store
            .commit(
                ALICE,
                Commit {
                    objects,
                    ..Commit::default()
                },
            )
            .await,
    );
    assert!(!is_stored(store, ALICE, id(&bare("x"))).await);
}

/// Calls without keys or objects succeed.
pub async fn empty_calls_succeed(store: &impl Store) {
    assert_eq!(
        store.get(ALICE, &[]).await.expect("get"),
        Vec::<Option<Bytes>>::new()
    );
    assert_eq!(
        store.contains(ALICE, &[]).await.expect("contains"),
        Vec::<bool>::new()
    );
    assert_eq!(
        store.snapshots(ALICE, &[]).await.expect("snapshots"),
        Vec::new()
    );
    put(store, &[]).await;
    assert_eq!(commit(store, Commit::default()).await, []);
    commit(store, of_snapshots(vec![bare("x")])).await;
    assert_eq!(
        store.list_snapshots(ALICE, None, 0).await.expect("list"),
        []
    );
    assert_eq!(
        store
            .list_references(ALICE, "", None, 0)
            .await
            .expect("list"),
        []
    );
}

/// The smallest and largest sizes, with bytes that do and do not compress.
pub async fn the_largest_chunk_and_the_empty_one_are_kept(store: &impl Store) {
    let mut random = Random(1);
    let noise: Vec<u8> = (0..MAX_CHUNK).map(|_| random.below(256) as u8).collect();
    let mut objects = vec![chunk(noise.clone()), chunk(vec![0; MAX_CHUNK]), chunk("")];
    for length in [1, 1023, 1024, 4095, 4096, 4097, 65_536] {
        objects.push(chunk(noise[..length].to_vec()));
        objects.push(chunk(vec![b'a'; length]));
    }
    let (first, second) = objects.split_at(objects.len() / 2);
    put_for(store, ALICE, first.to_vec()).await;
    commit(
        store,
        Commit {
            objects: second.to_vec(),
            ..Commit::default()
        },
    )
    .await;
    let found = store.get(ALICE, &keys(&objects)).await.expect("get");
    for (object, data) in objects.iter().zip(found) {
        assert!(
            data.as_ref() == Some(&object.data),
            "{} bytes come back",
            object.data.len()
        );
        assert!(get(store, ALICE, object).await.as_ref() == Some(&object.data));
    }
}

/// Promise 8: one call for any number of keys.
pub async fn a_batch_may_hold_thousands_of_objects(store: &impl Store) {
    let made = |n: u32| {
        object(
            [Kind::Chunk, Kind::Directory][(n % 2) as usize],
            format!("{n}"),
        )
    };
    let objects: Vec<_> = (0..4000).map(made).collect();
    put_for(store, ALICE, objects[..2000].to_vec()).await;
    commit(
        store,
        Commit {
            objects: objects[1000..3000].to_vec(),
            ..Commit::default()
        },
    )
    .await;
    let found = store.get(ALICE, &keys(&objects)).await.expect("get");
    for (place, (object, data)) in objects.iter().zip(found).enumerate() {
        assert_eq!(data, (place < 3000).then(|| object.data.clone()));
    }
}
