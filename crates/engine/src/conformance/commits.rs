//! Checks of commits: they are atomic, and are rejected if an object that a
//! snapshot needs is missing.

use std::thread;
use std::time::Duration;

use elevo_core::Timestamp;
use elevo_objects::{Hash, Kind, Snapshot, SnapshotId};
use tokio::runtime::Handle;

use super::{
    ALICE, BOB, assert_moved, assert_refused, bare, chunk, commit, directory, get, id, is_stored,
    object, of_snapshots, put, put_for, snapshot, update,
};
use crate::store::{Commit, Expected, Recent, Store};

/// Promise 5: objects, snapshots and refs arrive together.
pub async fn a_commit_shows_all_of_itself(store: &impl Store) {
    let (content, root) = (chunk("content"), directory("root"));
    let mut record = snapshot(Some(root.key.hash), "first");
    record.labels.insert("colour".into(), "green".into());
    record.parents.push(id(&bare("not stored here")));
    let ids = commit(
        store,
        Commit {
            objects: vec![content.clone(), root.clone()],
            snapshots: vec![record.clone()],
            references: vec![update("head", Expected::Absent, Some(id(&record)))],
            after: Vec::new(),
        },
    )
    .await;
    assert_eq!(ids, [id(&record)]);
    assert_eq!(get(store, ALICE, &content).await, Some(content.data));
    assert_eq!(get(store, ALICE, &root).await, Some(root.data));
    assert_eq!(
        store.reference(ALICE, "head").await.expect("reference"),
        Some(ids[0])
    );
    assert_eq!(
        store.snapshots(ALICE, &ids).await.expect("snapshots"),
        [Some(record)]
    );
}

/// Promise 5: a commit whose ref had another value has no effect at all.
pub async fn a_moved_reference_leaves_nothing_of_the_commit_visible(store: &impl Store) {
    let (old, new) = (bare("old"), bare("new"));
    let references = vec![update("head", Expected::Any, Some(id(&old)))];
    commit(
        store,
        Commit {
            snapshots: vec![old.clone()],
            references,
            ..Commit::default()
        },
    )
    .await;
    let late = Commit {
        objects: vec![chunk("late")],
        snapshots: vec![new.clone()],
        references: vec![
            update("other", Expected::Any, Some(id(&new))),
            update("head", Expected::Absent, Some(id(&new))),
        ],
        after: Vec::new(),
    };
    assert_moved(store.commit(ALICE, late).await, Some(id(&old)));
    assert!(!is_stored(store, ALICE, id(&new)).await);
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        [id(&old)]
    );
    let references = store
        .list_references(ALICE, "", None, 9)
        .await
        .expect("list");
    assert_eq!(references, [("head".into(), id(&old))]);
}

/// Promise 5: a commit with one rejected part has no effect at all.
pub async fn a_refused_commit_leaves_nothing_visible(store: &impl Store) {
    let good = bare("good");
    let references = || vec![update("head", Expected::Any, Some(id(&good)))];
    let no_root = snapshot(Some(directory("nowhere").key.hash), "bad");
    let snapshots = vec![good.clone(), no_root];
    let refused = Commit {
        snapshots,
        references: references(),
        ..Commit::default()
    };
    assert_refused(store.commit(ALICE, refused).await);
    let mut refused = Commit {
        snapshots: vec![good.clone()],
        references: references(),
        ..Commit::default()
    };
    refused.references.push(update("", Expected::Any, None));
    assert_refused(store.commit(ALICE, refused).await);
    assert!(!is_stored(store, ALICE, id(&good)).await);
    assert_eq!(
        store
            .list_references(ALICE, "", None, 9)
            .await
            .expect("list"),
        []
    );
}

/// Dropping a future leaves the store consistent.
pub async fn a_commit_that_is_never_polled_does_nothing(store: &impl Store) {
    let record = bare("dropped");
    drop(store.commit(ALICE, of_snapshots(vec![record.clone()])));
    let writer = store.writing(ALICE).await.expect("a writer");
    drop(store.put(ALICE, &writer, vec![chunk("dropped")]));
    assert!(!is_stored(store, ALICE, id(&record)).await);
    assert_eq!(get(store, ALICE, &chunk("dropped")).await, None);
}

/// Commits run concurrently, and share objects with those of other threads.
pub async fn commits_of_many_threads_all_arrive(store: &impl Store) {
    const THREADS: usize = 8;
    const COMMITS: usize = 12;
    let record = |thread: usize, n: usize| {
        let root = object(Kind::Directory, format!("root {n}"));
        (
            root.clone(),
            snapshot(Some(root.key.hash), format!("{thread}.{n}")),
        )
    };
    let runtime = &Handle::current();
    thread::scope(|scope| {
        for worker in 0..THREADS {
            scope.spawn(move || {
                for n in 0..COMMITS {
                    let (root, snapshot) = record(worker, n);
                    let name = format!("branch {worker}");
                    let previous = n.checked_sub(1).map(|n| id(&record(worker, n).1));
                    let expected = previous.map_or(Expected::Absent, Expected::At);
                    let references = vec![update(&name, expected, Some(id(&snapshot)))];
                    let commit = Commit {
                        objects: vec![root],
                        snapshots: vec![snapshot],
                        references,
                        after: Vec::new(),
                    };
                    let stored = runtime.block_on(store.commit(ALICE, commit));
                    stored.expect("commit");
                }
            });
        }
    });
    let found = store
        .list_snapshots(ALICE, None, usize::MAX)
        .await
        .expect("list");
    assert_eq!(found.len(), THREADS * COMMITS);
    for worker in 0..THREADS {
        let (root, last) = record(worker, COMMITS - 1);
        assert!(is_stored(store, ALICE, id(&last)).await);
        assert_eq!(get(store, ALICE, &root).await, Some(root.data));
        let reference = store.reference(ALICE, &format!("branch {worker}")).await;
        assert_eq!(reference.expect("reference"), Some(id(&last)));
    }
}

/// Promise 6: the root is stored earlier or in the commit, or the commit is
/// rejected.
pub async fn a_snapshot_needs_its_root(store: &impl Store) {
    let root = directory("root");
    let record = snapshot(Some(root.key.hash), "x");
    assert_refused(
        store
            .commit(ALICE, of_snapshots(vec![record.clone()]))
            .await,
    );

    // Neither the root of another tenant nor an object of another kind counts.
    put_for(store, BOB, vec![root.clone()]).await;
    let other_kind = object(Kind::Times, "root");
    let mut wrong = of_snapshots(vec![snapshot(Some(other_kind.key.hash), "x")]);
    wrong.objects.push(other_kind);
    assert_refused(store.commit(ALICE, wrong).await);
    assert_refused(
        store
            .commit(ALICE, of_snapshots(vec![record.clone()]))
            .await,
    );
    assert!(!is_stored(store, ALICE, id(&record)).await);

    put(store, &[&root]).await;
    commit(store, of_snapshots(vec![record])).await;
    let other = directory("other root");
    let mut with_root = of_snapshots(vec![snapshot(Some(other.key.hash), "x")]);
    with_root.objects.push(other);
    commit(store, with_root).await;
}

/// Promise 6, for the time tree.
pub async fn a_snapshot_needs_the_root_of_its_times(store: &impl Store) {
    let times = object(Kind::Times, "times");
    let record = Snapshot {
        times: Some(times.key.hash),
        ..bare("x")
    };
    assert_refused(
        store
            .commit(ALICE, of_snapshots(vec![record.clone()]))
            .await,
    );
    let with_times = Commit {
        objects: vec![times.clone()],
        snapshots: vec![record.clone()],
        ..Commit::default()
    };
    commit(store, with_times).await;
    commit(
        store,
        of_snapshots(vec![Snapshot {
            message: "y".into(),
            ..record
        }]),
    )
    .await;
}

/// An empty tree has no root node.
pub async fn a_snapshot_of_the_empty_tree_needs_no_object(store: &impl Store) {
    let record = bare("empty");
    let ids = commit(store, of_snapshots(vec![record.clone()])).await;
    assert_eq!(
        store.snapshots(ALICE, &ids).await.expect("snapshots"),
        [Some(record)]
    );
}

/// A snapshot is identified by content: an equal record is the same snapshot.
pub async fn a_snapshot_is_stored_once(store: &impl Store) {
    let record = bare("same");
    let first = commit(store, of_snapshots(vec![record.clone(), record.clone()])).await;
    let second = commit(store, of_snapshots(vec![record.clone()])).await;
    assert_eq!((first[0], first[1]), (second[0], second[0]));
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        second
    );
}

/// A snapshot that cannot be encoded is rejected, not truncated.
pub async fn a_snapshot_over_a_limit_is_refused(store: &impl Store) {
    let record = bare("m".repeat(1 << 20));
    assert_refused(store.commit(ALICE, of_snapshots(vec![record])).await);
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        []
    );
}

/// New snapshots are recent, and are listed in byte order, each once.
pub async fn recent_snapshots_are_listed_in_pages(store: &impl Store) {
    let now = Timestamp::new(1_800_000_000, 5).expect("a time");
    let made = |n: u32| Snapshot {
        created: now,
        ..bare(format!("{n}"))
    };
    let mut expected = commit(store, of_snapshots((0..23).map(made).collect())).await;
    expected.sort();
    let age = Duration::from_secs(3600);
    let recent = Recent { age, now };
    for limit in [1, 4, 23, 100] {
        let mut seen = Vec::new();
        loop {
            let after = seen.last().copied();
            let page = store.snapshots_since(ALICE, recent, after, limit).await;
            let page = page.expect("a page");
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
    let others = store.snapshots_since(BOB, recent, None, 9).await;
    assert_eq!(others.expect("a page"), []);
    let none = store.snapshots_since(ALICE, recent, None, 0).await;
    assert_eq!(none.expect("a page"), []);
}

/// Snapshots are listed in byte order, each once, for every size of a page.
pub async fn snapshots_are_listed_in_pages(store: &impl Store) {
    let snapshots: Vec<_> = (0..23).map(|n| bare(format!("{n}"))).collect();
    let mut expected = commit(store, of_snapshots(snapshots)).await;
    expected.sort();
    for limit in [1, 4, 23, 100] {
        let mut seen = Vec::new();
        loop {
            let page = store
                .list_snapshots(ALICE, seen.last().copied(), limit)
                .await
                .expect("list");
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
    // A page may start after an id that is not stored.
    let between = SnapshotId(Hash::from_bytes([0x80; 32]));
    let rest = store
        .list_snapshots(ALICE, Some(between), 100)
        .await
        .expect("list");
    assert_eq!(
        rest,
        expected
            .into_iter()
            .filter(|id| *id > between)
            .collect::<Vec<_>>()
    );
}
