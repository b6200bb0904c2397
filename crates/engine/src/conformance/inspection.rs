//! The operations that [`Inspect`] adds to a store.

use elevo_objects::{Hash, Kind, ObjectKey};

use super::{
    ALICE, BOB, assert_refused, bare, chunk, commit, get, id, is_stored, object, of_references,
    put_for, snapshot, update,
};
use crate::inspect::{Inspect, RowRepair};
use crate::store::{Expected, Object};

/// Expands to one test per promise of [`Inspect`](crate::Inspect).
#[macro_export]
macro_rules! inspection_tests {
    ($make:expr) => {
        $crate::conformance_tests! {
            @each $make;
            objects_are_listed_in_pages_by_kind
            repaired_rows_are_stored
            a_repair_rejects_bytes_that_do_not_match_their_key
            a_deleted_object_can_be_put_again
        }
    };
}

fn samples() -> Vec<Object> {
    let kinds = [Kind::Chunk, Kind::Directory, Kind::Times, Kind::ChunkList];
    let sizes = [0, 1, 300, 5000, 70_000];
    let of_kind = |kind| sizes.map(move |size| object(kind, vec![7; size]));
    kinds.into_iter().flat_map(of_kind).collect()
}

async fn list(store: &impl Inspect, kind: Kind, after: Option<Hash>, limit: usize) -> Vec<Hash> {
    let listed = store.list_objects(ALICE, kind, after, limit).await;
    listed.expect("list")
}

/// Each kind is listed by itself, in order, for every size of a page; objects
/// of other tenants are not.
pub async fn objects_are_listed_in_pages_by_kind(store: &impl Inspect) {
    let all = samples();
    put_for(store, ALICE, all.clone()).await;
    let theirs = vec![chunk("theirs")];
    put_for(store, BOB, theirs.clone()).await;
    for kind in Kind::ALL {
        let of_kind = all.iter().filter(|object| object.key.kind == kind);
        let mut expected: Vec<_> = of_kind.map(|object| object.key.hash).collect();
        expected.sort();
        for page in 1..7 {
            let mut found = Vec::new();
            loop {
                let more = list(store, kind, found.last().copied(), page).await;
                found.extend(&more);
                if more.len() < page {
                    break;
                }
            }
            assert_eq!(found, expected, "{kind:?} in pages of {page}");
        }
        assert_eq!(list(store, kind, None, 0).await, []);
        // A position between two hashes, or before all of them.
        let all_after = list(store, kind, Some(Hash::from_bytes([0; 32])), 99).await;
        assert_eq!(all_after, expected);
        let none = list(store, kind, Some(Hash::from_bytes([0xff; 32])), 99).await;
        assert_eq!(none, []);
    }
    let listed = store.list_objects(BOB, Kind::Chunk, None, 9).await;
    assert_eq!(listed.expect("list"), [theirs[0].key.hash]);
}

/// A repair stores objects, refs, and snapshots, whose roots are not checked.
pub async fn repaired_rows_are_stored(store: &impl Inspect) {
    let (new, old) = (chunk("new"), chunk("old"));
    put_for(store, ALICE, vec![old.clone()]).await;
    let lost = snapshot(Some(Hash::from_bytes([9; 32])), "its root is lost");
    let repair = RowRepair {
        objects: vec![new.clone(), old.clone()],
        snapshots: vec![lost.clone()],
        references: vec![("head".into(), id(&lost))],
        remove: Vec::new(),
    };
    store.repair_rows(ALICE, repair).await.expect("repair");
    assert_eq!(get(store, ALICE, &new).await, Some(new.data.clone()));
    assert_eq!(get(store, ALICE, &old).await, Some(old.data));
    assert_eq!(get(store, BOB, &new).await, None);
    assert!(is_stored(store, ALICE, id(&lost)).await);
    let head = store.reference(ALICE, "head").await.expect("reference");
    assert_eq!(head, Some(id(&lost)));
    // A repaired ref can be moved like any other.
    let next = bare("next");
    let to = Some(id(&next));
    commit(store, super::of_snapshots(vec![next])).await;
    let moved = of_references(vec![update("head", Expected::At(id(&lost)), to)]);
    commit(store, moved).await;
}

/// The whole call is rejected if one object is invalid.
pub async fn a_repair_rejects_bytes_that_do_not_match_their_key(store: &impl Inspect) {
    let right = chunk("right");
    let wrong = Object {
        key: chunk("one").key,
        data: "another".into(),
    };
    let repair = RowRepair {
        objects: vec![right.clone(), wrong.clone()],
        ..RowRepair::default()
    };
    assert_refused(store.repair_rows(ALICE, repair).await);
    assert_eq!(get(store, ALICE, &right).await, None);
    assert_eq!(get(store, ALICE, &wrong).await, None);
    let nameless = RowRepair {
        references: vec![(String::new(), id(&bare("a")))],
        ..RowRepair::default()
    };
    assert_refused(store.repair_rows(ALICE, nameless).await);
}

/// A deletion affects one object of one kind and tenant.
pub async fn a_deleted_object_can_be_put_again(store: &impl Inspect) {
    let all = samples();
    for tenant in [ALICE, BOB] {
        put_for(store, tenant, all.clone()).await;
    }
    let gone: Vec<ObjectKey> = all.iter().step_by(3).map(|object| object.key).collect();
    let repair = RowRepair {
        remove: gone.clone(),
        ..RowRepair::default()
    };
    store.repair_rows(ALICE, repair).await.expect("repair");
    for object in &all {
        let is_gone = gone.contains(&object.key);
        assert_eq!(get(store, ALICE, object).await.is_none(), is_gone);
        assert!(get(store, BOB, object).await.is_some());
    }
    put_for(store, ALICE, all.clone()).await;
    for object in &all {
        assert_eq!(get(store, ALICE, object).await.as_ref(), Some(&object.data));
    }
}
