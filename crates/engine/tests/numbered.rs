//! Entries by number, compared with a walk.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use elevo_core::{Timestamp, TreePath};
use elevo_engine::{Attributes, NumberedTree, Repository, StateTree, Visit, Walk};
use elevo_objects::{Entry, Mode, Snapshot};
use futures::executor::block_on;
use proptest::prelude::*;
use support::{info, path, repository};

fn snapshot_of(repository: &Repository, paths: &BTreeMap<TreePath, i64>) -> Snapshot {
    let tree = StateTree::empty(repository);
    block_on(async {
        for (path, time) in paths {
            let attributes = Attributes {
                mode: None,
                modified: (time % 3 > 0).then(|| Timestamp::new(*time, 7).unwrap()),
            };
            let data = Bytes::from(path.to_string());
            // A path below an existing file is skipped.
            let _ = tree.write(path, data, attributes).await;
        }
        let id = tree.commit(info("numbered")).await.unwrap();
        repository.snapshot(id).await.unwrap()
    })
}

async fn walked(repository: &Repository, snapshot: &Snapshot) -> Vec<Visit> {
    let walk = Walk::new(repository, snapshot.tree, snapshot.times).await;
    let (mut walk, mut visits) = (walk.unwrap(), Vec::new());
    while let Some(visit) = walk.next().await.unwrap() {
        visits.push(visit);
    }
    visits
}

async fn check(repository: &Repository, snapshot: &Snapshot) {
    let numbered = NumberedTree::new(repository, snapshot, Mode::from_bits(0o755));
    let visits = walked(repository, snapshot).await;
    let mut numbers = BTreeMap::from([(TreePath::root(), 1)]);
    for (number, visit) in (2..).zip(&visits) {
        let entry = numbered.get(number).await.unwrap().unwrap();
        assert_eq!(entry.number, number);
        assert_eq!(entry.entry, visit.entry, "{}", visit.path);
        assert_eq!(entry.modified, visit.modified, "{}", visit.path);
        numbers.insert(visit.path.clone(), number);
    }
    let end = visits.len() as u64 + 2;
    for none in [0, end, end + 1, u64::MAX] {
        assert!(numbered.get(none).await.unwrap().is_none(), "{none}");
    }
    for (at, number) in &numbers {
        let directory = numbered.get(*number).await.unwrap().unwrap();
        let below = visits.iter().filter_map(|visit| {
            let (above, name) = visit.path.split_last()?;
            (above == *at).then(|| (name, numbers[&visit.path]))
        });
        let expected: Vec<_> = below.collect();
        let (mut listed, mut from) = (Vec::new(), number + 1);
        loop {
            let some = numbered.list(&directory, from).await.unwrap();
            let Some((_, last)) = some.last() else { break };
            from = last.next();
            listed.extend(some);
        }
        let seen: Vec<_> = listed
            .iter()
            .map(|(name, entry)| (name.clone(), entry.number))
            .collect();
        assert_eq!(seen, expected, "{at}");
        for (name, entry) in listed {
            let found = numbered.lookup(&directory, name.as_bytes()).await.unwrap();
            let found = found.unwrap();
            assert_eq!(found.number, entry.number);
            assert_eq!((found.entry, found.modified), (entry.entry, entry.modified));
            assert_eq!(numbered.parent(entry.number).await.unwrap(), *number);
        }
        for none in ["", "zzzz-not-there", "\u{1}"] {
            let found = numbered.lookup(&directory, none.as_bytes()).await.unwrap();
            assert!(found.is_none(), "{at} {none}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn numbers_are_those_of_a_walk(
        names in prop::collection::btree_map(
            prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "dd", "e.txt"]), 1..5),
            0..1000_i64,
            0..60,
        ),
        many in prop::collection::btree_set(0..2000_u32, 0..600),
    ) {
        let (_, repository) = repository();
        let mut paths: BTreeMap<_, _> = names
            .into_iter()
            .map(|(names, time)| (path(&names.join("/")), time))
            .collect();
        for n in many {
            paths.insert(path(&format!("a/many/{n}/x")), i64::from(n));
        }
        let snapshot = snapshot_of(&repository, &paths);
        block_on(check(&repository, &snapshot));
    }
}

#[test]
fn rejects_a_directory_with_a_wrong_count() {
    let (_, repository) = repository();
    let paths = [(path("d/a"), 1), (path("d/b"), 1), (path("e"), 1)].into();
    let mut snapshot = snapshot_of(&repository, &paths);
    snapshot.tree.count += 5;
    let numbered = NumberedTree::new(&repository, &snapshot, Mode::from_bits(0o755));
    assert!(block_on(numbered.get(3)).is_err());
    assert!(block_on(numbered.lookup(numbered.root(), b"e")).is_err());
    assert!(matches!(numbered.root().entry, Entry::Directory { .. }));
}
