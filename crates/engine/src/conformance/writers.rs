//! Objects that are put ahead of a commit, and the writers that put them.

use std::collections::HashSet;

use elevo_objects::Kind;

use super::{
    ALICE, BOB, assert_moved, assert_refused, bare, chunk, commit, directory, get, id, is_stored,
    object, of_writers, put_ahead, snapshot, update,
};
use crate::store::{Commit, Expected, Store};

/// Promise 4: while the writer is registered, its objects can be read.
pub async fn a_put_object_can_be_read_at_once(store: &impl Store) {
    for kind in [Kind::Chunk, Kind::Directory, Kind::Times, Kind::ChunkList] {
        let object = object(kind, format!("{kind:?}"));
        let writer = put_ahead(store, ALICE, vec![object.clone()]).await;
        let found = store.get(ALICE, &[object.key]).await.expect("get");
        assert_eq!(found, [Some(object.data)]);
        drop(writer);
    }
}

/// Promises 4 to 6: the snapshots of a commit may need the objects of every
/// writer that it names. From then on, the objects do not depend on the writers.
pub async fn a_commit_makes_the_objects_of_the_writers_that_it_names_durable(store: &impl Store) {
    let (one, two) = (directory("one"), directory("two"));
    let (also_one, other) = (chunk("also one"), chunk("of an unnamed writer"));
    let first = put_ahead(store, ALICE, vec![one.clone()]).await;
    let second = put_ahead(store, ALICE, vec![two.clone()]).await;
    let unnamed = put_ahead(store, ALICE, vec![other.clone()]).await;
    let put = store.put(ALICE, &first, vec![also_one.clone()]).await;
    put.expect("put");
    let made = [&one, &two].map(|root| snapshot(Some(root.key.hash), "named"));
    let of = Commit {
        snapshots: made.to_vec(),
        ..of_writers(&[&first, &second])
    };
    commit(store, of).await;
    drop((first, second));
    for object in [&one, &two, &also_one] {
        assert_eq!(get(store, ALICE, object).await, Some(object.data.clone()));
        assert_eq!(get(store, BOB, object).await, None);
    }
    // The other writer goes on, and is named later.
    let found = store.get(ALICE, &[other.key]).await.expect("get");
    assert_eq!(found, [Some(other.data.clone())]);
    commit(store, of_writers(&[&unnamed])).await;
    drop(unnamed);
    assert_eq!(get(store, ALICE, &other).await, Some(other.data));
    for made in &made {
        assert!(is_stored(store, ALICE, id(made)).await);
    }
}

/// A commit that fails takes nothing away from its writers, so that it can be
/// repeated.
pub async fn a_failed_commit_can_name_its_writers_again(store: &impl Store) {
    let root = directory("root");
    let writer = put_ahead(store, ALICE, vec![root.clone()]).await;
    let made = snapshot(Some(root.key.hash), "made");
    let wrong = Some(id(&bare("elsewhere")));
    let of = |expected| Commit {
        snapshots: vec![made.clone()],
        references: vec![update("head", expected, Some(id(&made)))],
        ..of_writers(&[&writer])
    };
    let expected = wrong.map_or(Expected::Any, Expected::At);
    assert_moved(store.commit(ALICE, of(expected)).await, None);
    assert!(!is_stored(store, ALICE, id(&made)).await);
    let more = chunk("more");
    let put = store.put(ALICE, &writer, vec![more.clone()]).await;
    put.expect("the writer goes on");
    commit(store, of(Expected::Absent)).await;
    for object in [&root, &more] {
        assert_eq!(get(store, ALICE, object).await, Some(object.data.clone()));
    }
}

/// The objects of an ended writer may have been collected.
pub async fn a_commit_that_names_an_ended_writer_is_refused(store: &impl Store) {
    let ended = put_ahead(store, ALICE, vec![chunk("ended")]).await;
    let of = Commit {
        snapshots: vec![bare("refused")],
        ..of_writers(&[&ended])
    };
    drop(ended);
    assert_refused(store.commit(ALICE, of.clone()).await);
    assert!(!is_stored(store, ALICE, id(&bare("refused"))).await);
    // The writer of another tenant is as unknown as an ended one.
    let theirs = store.writing(BOB).await.expect("a writer");
    assert_refused(store.commit(ALICE, of_writers(&[&theirs])).await);
    // A later writer does not get the id of the ended one.
    let later = store.writing(ALICE).await.expect("a writer");
    assert_refused(store.commit(ALICE, of).await);
    drop(later);
}

/// Two writers of a store never have the same id.
pub async fn each_writer_has_its_own_id(store: &impl Store) {
    let mut ids = HashSet::new();
    for tenant in [ALICE, BOB, ALICE] {
        let first = store.writing(tenant).await.expect("a writer");
        let second = store.writing(tenant).await.expect("a writer");
        assert!(ids.insert(first.id()), "{first:?}");
        assert!(ids.insert(second.id()), "{second:?}");
    }
}
