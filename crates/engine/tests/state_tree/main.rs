//! `StateTree` compared with a plain model, under the same operations.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod operations;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use elevo_engine::{
    Attributes, ChangeKind, ChunkReader, Error, GcOptions, GcProgress, GcScope, Repository,
    StateTree, Store, collect_garbage, content_of,
};
use elevo_objects::{Entry, Kind, Mode};
use futures::executor::block_on;
use operations::{
    any_data, any_op, apply_to_model, apply_to_tree, expected_changes, found_changes,
};
use proptest::prelude::*;
use support::{Model, Thing, info, noise, path, read_all, repository, write_all};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_state_tree_does_what_the_model_does(ops in prop::collection::vec(any_op(), 1..60)) {
        let (_, repository) = repository();
        let tree = StateTree::empty(&repository);
        let mut model = Model::new();
        let mut fork: Option<(StateTree, Model)> = None;
        for (at, op) in ops.iter().enumerate() {
            let expected = apply_to_model(&mut model, op);
            let done = block_on(apply_to_tree(&tree, op));
            prop_assert_eq!(done.is_ok(), expected, "{:?}: {:?}", op, done);
            if at == ops.len() / 2 {
                fork = Some((tree.clone(), model.clone()));
            }
        }
        prop_assert_eq!(&read_all(&tree), &model);

        // Equal content has an equal root, independent of its history.
        let anew = write_all(&repository, &model);
        prop_assert_eq!(block_on(tree.tree()).unwrap(), block_on(anew.tree()).unwrap());

        // A clone taken midway did not see later changes.
        if let Some((fork, before)) = fork {
            prop_assert_eq!(&read_all(&fork), &before);
            let changes = block_on(async { fork.diff(&tree).await?.collect().await }).unwrap();
            prop_assert_eq!(found_changes(&changes), expected_changes(&before, &model));
            let mut in_order = changes.clone();
            in_order.sort_by(|a, b| a.path.names().cmp(b.path.names()));
            prop_assert_eq!(in_order, changes);
        }

        // A commit reads back the same, from a repository with an empty cache.
        let id = block_on(tree.commit(info("end"))).unwrap();
        let cold = elevo_engine::Repository::new(repository.store().clone(), support::TENANT, 0);
        let again = block_on(StateTree::open(&cold, id)).unwrap();
        prop_assert_eq!(&read_all(&again), &model);
        let snapshot = block_on(cold.snapshot(id)).unwrap();
        let bytes: u64 = model.values().map(|thing| match thing {
            Thing::File(_, data) => data.len() as u64,
            _ => 0,
        }).sum();
        prop_assert_eq!(snapshot.tree.count, model.len() as u64);
        prop_assert_eq!(snapshot.tree.bytes, bytes);
    }

    #[test]
    fn a_splice_gives_the_same_file_as_writing_it_again(
        seed in any::<u64>(),
        size in 0..2_000_000_usize,
        zeros in prop_oneof![Just(0), 0..600_000_usize],
        edits in prop::collection::vec((0..4_000_000_u64, 0..400_000_u64, any_data()), 1..6),
    ) {
        let (_, repository) = repository();
        let tree = StateTree::empty(&repository);
        let at = path("file");
        let mut data = noise(seed, size);
        let end = size - zeros.min(size);
        data[end..].fill(0);
        block_on(tree.write(&at, data.clone().into(), Attributes::default())).unwrap();
        for (offset, remove, insert) in edits {
            block_on(tree.splice(&at, offset, remove, insert.clone().into())).unwrap();
            let offset = offset as usize;
            if data.len() < offset {
                data.resize(offset, 0);
            }
            let end = (offset + remove as usize).min(data.len());
            data.splice(offset..end, insert);
        }
        let anew = StateTree::empty(&repository);
        block_on(anew.write(&at, data.clone().into(), Attributes::default())).unwrap();
        prop_assert_eq!(block_on(tree.tree()).unwrap(), block_on(anew.tree()).unwrap());
        prop_assert_eq!(block_on(tree.read(&at)).unwrap(), Bytes::from(data));
    }
}

#[test]
fn a_directory_of_many_entries_is_edited_at_the_cost_of_the_edit() {
    let (store, repository) = repository();
    let tree = StateTree::empty(&repository);
    block_on(async {
        for n in 0..20_000 {
            let at = path(&format!("big/{n:06}"));
            tree.write(&at, Bytes::from(n.to_string()), Attributes::default())
                .await
                .unwrap();
        }
        tree.commit(info("many")).await.unwrap();
        let (_, before) = store.usage(support::TENANT);
        for n in [0, 9_999, 19_999] {
            let at = path(&format!("big/{n:06}"));
            tree.write(&at, Bytes::from_static(b"new"), Attributes::default())
                .await
                .unwrap();
        }
        tree.commit(info("three")).await.unwrap();
        let (_, after) = store.usage(support::TENANT);
        assert!(
            after - before < 100_000,
            "{} bytes for three entries",
            after - before
        );
        let page = tree.list(&path("big"), None, 100_000).await.unwrap();
        assert_eq!(page.len(), 20_000);
    });
}

#[test]
fn an_insertion_into_a_large_file_adds_little_and_reads_little() {
    let (store, repository) = repository();
    let tree = StateTree::empty(&repository);
    let at = path("large");
    block_on(async {
        let data = Bytes::from(noise(3, 30_000_000));
        tree.write(&at, data, Attributes::default()).await.unwrap();
        tree.commit(info("large")).await.unwrap();
        let (_, before) = store.usage(support::TENANT);
        tree.splice(&at, 15_000_000, 0, Bytes::from_static(b"ten bytes!"))
            .await
            .unwrap();
        tree.commit(info("edited")).await.unwrap();
        let (_, after) = store.usage(support::TENANT);
        assert!(after - before < 600_000, "{} new bytes", after - before);
    });
}

#[test]
fn a_file_grows_by_any_number_of_zeros_at_once() {
    let (_, repository) = repository();
    let tree = StateTree::empty(&repository);
    let at = path("large");
    let largest = elevo_objects::MAX_FILE_BYTES;
    block_on(async {
        let data = Bytes::from_static(b"begins");
        tree.write(&at, data, Attributes::default()).await.unwrap();
        tree.splice(&at, largest - 3, 0, Bytes::from_static(b"end"))
            .await
            .unwrap();
        let id = tree.commit(info("large")).await.unwrap();
        let tree = StateTree::open(&repository, id).await.unwrap();
        let end = tree.read_at(&at, largest - 5, 10).await.unwrap();
        assert_eq!(end, b"\0\0end"[..]);
        assert_eq!(tree.read_at(&at, 0, 8).await.unwrap(), b"begins\0\0"[..]);
        tree.splice(&at, largest - 2, 1, Bytes::new())
            .await
            .unwrap();
        let end = tree.read_at(&at, largest - 5, 10).await.unwrap();
        assert_eq!(end, b"\0\0ed"[..]);
    });
}

#[test]
fn a_commit_moves_its_reference_or_does_nothing() {
    let (_, repository) = repository();
    let tree = StateTree::empty(&repository);
    block_on(async {
        tree.write(&path("a"), Bytes::from_static(b"1"), Attributes::default())
            .await
            .unwrap();
        let head = || Some(("head".to_string(), elevo_engine::Expected::Absent));
        let mut first = info("first");
        first.reference = head();
        let id = tree.commit(first.clone()).await.unwrap();
        let store = repository.store();
        assert_eq!(
            store.reference(support::TENANT, "head").await.unwrap(),
            Some(id)
        );
        tree.write(&path("a"), Bytes::from_static(b"2"), Attributes::default())
            .await
            .unwrap();
        assert!(tree.commit(first).await.is_err());
        assert_eq!(
            store.reference(support::TENANT, "head").await.unwrap(),
            Some(id)
        );
        assert_eq!(
            tree.read(&path("a")).await.unwrap(),
            Bytes::from_static(b"2")
        );
    });
}

#[test]
fn many_threads_write_and_read_one_tree() {
    let (_, repository) = repository();
    let tree = StateTree::empty(&repository);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tree = &tree;
            scope.spawn(move || {
                for n in 0..200 {
                    let at = path(&format!("shared/{thread}-{n}"));
                    let data = Bytes::from(format!("{thread} {n}"));
                    block_on(tree.write(&at, data.clone(), Attributes::default())).unwrap();
                    assert_eq!(block_on(tree.read(&at)).unwrap(), data);
                    if n % 50 == 0 {
                        block_on(tree.commit(info("from a thread"))).unwrap();
                    }
                }
            });
        }
    });
    let listed = block_on(tree.list(&path("shared"), None, usize::MAX)).unwrap();
    assert_eq!(listed.len(), 800);
}

#[test]
fn a_very_deep_tree_can_be_committed_and_compared() {
    let (_, repository) = repository();
    let tree = StateTree::empty(&repository);
    let deep = path(&vec!["d"; 2000].join("/"));
    block_on(async {
        tree.write(&deep, Bytes::from_static(b"x"), Attributes::default())
            .await
            .unwrap();
        tree.commit(info("deep")).await.unwrap();
        let other = tree.clone();
        other
            .write(&deep, Bytes::from_static(b"y"), Attributes::default())
            .await
            .unwrap();
        let changes = tree.diff(&other).await.unwrap().collect().await.unwrap();
        assert_eq!(changes.len(), 1);
        assert!(matches!(
            &changes[0].kind,
            ChangeKind::Modified {
                before: Entry::File { .. },
                ..
            }
        ));
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_large_directory_equals_one_written_from_scratch(
        first in prop::collection::btree_set(0..6_000_u32, 0..3_000),
        rounds in prop::collection::vec(
            (
                prop::collection::btree_set(0..6_000_u32, 0..300),
                prop::collection::btree_set(0..6_000_u32, 0..300),
                prop::option::of((0..6_000_u32, 0..6_000_u32)),
            ),
            1..4,
        ),
    ) {
        let (_, repository) = repository();
        let tree = StateTree::empty(&repository);
        let name = |n: &u32| path(&format!("big/entry {n}"));
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        let write = |tree: &StateTree, n: &u32, round: u32| {
            let data = Bytes::from(format!("{n} {round}"));
            block_on(tree.write(&name(n), data, Attributes::default())).unwrap();
        };
        block_on(tree.make_directory(&path("big"), Mode::EXECUTABLE)).unwrap();
        for n in &first {
            write(&tree, n, 0);
            model.insert(*n, 0);
        }
        block_on(tree.commit(info("first"))).unwrap();
        for (round, (written, removed, cleared)) in rounds.into_iter().enumerate() {
            let round = round as u32 + 1;
            let before = tree.clone();
            let model_before = model.clone();
            for n in &written {
                write(&tree, n, round);
                model.insert(*n, round);
            }
            let gone = removed.into_iter().chain(cleared.map(|(a, b)| a.min(b)..a.max(b)).into_iter().flatten());
            for n in gone {
                let done = block_on(tree.remove(&name(&n)));
                prop_assert_eq!(done.is_ok(), model.remove(&n).is_some());
            }
            block_on(tree.commit(info("round"))).unwrap();
            let anew = StateTree::empty(&repository);
            block_on(anew.make_directory(&path("big"), Mode::EXECUTABLE)).unwrap();
            for (n, round) in &model {
                write(&anew, n, *round);
            }
            prop_assert_eq!(block_on(tree.tree()).unwrap(), block_on(anew.tree()).unwrap());
            let changes = block_on(async { before.diff(&tree).await?.collect().await }).unwrap();
            let expected = model_before
                .keys()
                .chain(model.keys())
                .filter(|n| model_before.get(n) != model.get(n))
                .collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(changes.len(), expected.len());
        }
    }
}

fn collect_all(repository: &Repository) -> u64 {
    let options = GcOptions {
        scope: GcScope::Full,
        dry_run: false,
        keep_recent: None,
    };
    let (mut roots, progress) = (std::iter::empty(), GcProgress::default());
    let mut wait = |_| panic!("no writer is active");
    let report = collect_garbage(repository, &mut roots, &options, &mut wait, &progress);
    report.unwrap().objects_removed
}

#[test]
fn a_tree_and_its_diffs_hold_their_snapshots() {
    // Almost no cache, so that an object that is missing from the store is
    // noticed.
    let store = std::sync::Arc::new(elevo_engine::MemoryStore::new());
    let repository = Repository::new(store, support::TENANT, 1);
    let tree = StateTree::empty(&repository);
    let write = |name: &str, text: &'static str| {
        let data = Bytes::from_static(text.as_bytes());
        block_on(tree.write(&path(name), data, Attributes::default())).unwrap();
    };
    write("d/old", "old");
    block_on(tree.commit(info("first"))).unwrap();
    let first = tree.clone();
    write("d/new", "new");
    write("d/old", "changed");
    let mut diff = block_on(first.diff(&tree)).unwrap();
    drop(first);
    block_on(tree.commit(info("second"))).unwrap();
    assert_eq!(collect_all(&repository), 0, "both are held");
    while block_on(diff.next()).unwrap().is_some() {}
    drop(diff);
    assert!(collect_all(&repository) > 0, "only the second is held");
    write("e", "e");
    let last = block_on(tree.commit(info("third"))).unwrap();
    assert_eq!(block_on(tree.read(&path("d/new"))).unwrap(), "new");
    drop(tree);
    block_on(repository.snapshot(last)).unwrap();
    collect_all(&repository);
    let gone = block_on(repository.snapshot(last));
    assert!(matches!(gone, Err(Error::NoSuchSnapshot(_))), "{gone:?}");
}

#[test]
fn a_read_at_an_offset_needs_only_the_chunk_there() {
    let (store, repository) = repository();
    let data = Bytes::from(noise(7, 3_000_000));
    let offset = 1_500_000;
    let (content, mut objects) = content_of(data.clone());
    let mut end = 0;
    objects.retain(|object| {
        if object.key.kind != Kind::Chunk {
            return true;
        }
        let start = end;
        end += object.data.len();
        (start..end).contains(&offset)
    });
    let writer = block_on(store.writing(support::TENANT)).unwrap();
    block_on(store.put(support::TENANT, &writer, objects)).unwrap();
    let opened = ChunkReader::open(&repository, &content, offset as u64);
    let (mut reader, start) = block_on(opened).unwrap();
    let chunk = block_on(reader.next_of(1)).unwrap().unwrap();
    let start = start as usize;
    assert!((start..start + chunk.len()).contains(&offset));
    assert_eq!(chunk, data[start..start + chunk.len()]);
    let next = block_on(reader.next_of(1));
    assert!(matches!(next, Err(Error::MissingObject(_))), "{next:?}");
}
