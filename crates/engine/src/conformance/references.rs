//! Refs: how they move and how they are listed.

use std::thread;

use tokio::runtime::Handle;

use super::{
    ALICE, assert_moved, assert_refused, bare, commit, id, is_stored, of_references, of_snapshots,
    update,
};
use crate::store::{Commit, Expected, MAX_REFERENCE_BYTES, Store};

/// Promise 7, each expectation against each state.
pub async fn a_reference_moves_only_from_where_it_is_expected(store: &impl Store) {
    let (a, b) = (bare("a"), bare("b"));
    commit(store, of_snapshots(vec![a.clone(), b.clone()])).await;
    let (a, b) = (id(&a), id(&b));
    let step = async |expected, target| {
        store
            .commit(ALICE, of_references(vec![update("head", expected, target)]))
            .await
    };
    assert_moved(step(Expected::At(a), Some(b)).await, None);
    step(Expected::Absent, Some(a))
        .await
        .expect("it was absent");
    assert_moved(step(Expected::Absent, Some(b)).await, Some(a));
    assert_moved(step(Expected::At(b), Some(b)).await, Some(a));
    step(Expected::At(a), Some(b)).await.expect("it was there");
    step(Expected::Any, Some(a)).await.expect("anything goes");
    assert_eq!(
        store.reference(ALICE, "head").await.expect("reference"),
        Some(a)
    );
    step(Expected::At(a), Some(a))
        .await
        .expect("staying is a move");
}

/// Promise 5, with many refs in one commit.
pub async fn a_commit_moves_all_of_its_references_or_none(store: &impl Store) {
    let record = bare("a");
    let to = Some(id(&record));
    commit(store, of_snapshots(vec![record])).await;
    let names = ["a", "b", "c"];
    let both = names
        .map(|name| update(name, Expected::Absent, to))
        .to_vec();
    commit(store, of_references(both.clone())).await;
    assert_moved(store.commit(ALICE, of_references(both)).await, to);
    let mixed = vec![
        update("a", Expected::At(id(&bare("a"))), None),
        update("d", Expected::Absent, to),
        update("c", Expected::Absent, to),
    ];
    assert_moved(store.commit(ALICE, of_references(mixed)).await, to);
    let found = store
        .list_references(ALICE, "", None, 9)
        .await
        .expect("list");
    assert_eq!(
        found
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        names
    );
}

/// Promise 7, with racing threads.
pub async fn one_of_several_commits_that_expect_the_same_value_wins(store: &impl Store) {
    const THREADS: usize = 6;
    let record = |round: usize, thread: usize| bare(format!("{round} by {thread}"));
    let mut expected = Expected::Absent;
    let runtime = Handle::current();
    for round in 0..10 {
        let outcomes: Vec<_> = thread::scope(|scope| {
            let race = |thread| {
                let record = record(round, thread);
                let references = vec![update("head", expected, Some(id(&record)))];
                let commit = Commit {
                    snapshots: vec![record],
                    references,
                    ..Commit::default()
                };
                runtime.block_on(store.commit(ALICE, commit))
            };
            let racers: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || race(thread)))
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().expect("no panic"))
                .collect()
        });
        let winner = store
            .reference(ALICE, "head")
            .await
            .expect("reference")
            .expect("one won");
        for (thread, outcome) in outcomes.into_iter().enumerate() {
            let id = id(&record(round, thread));
            if id == winner {
                assert_eq!(outcome.expect("the winner succeeds").ids, [id]);
            } else {
                assert_moved(outcome, Some(winner));
            }
            assert_eq!(is_stored(store, ALICE, id).await, id == winner);
        }
        expected = Expected::At(winner);
    }
}

/// The target `None` deletes a ref; the name is free again.
pub async fn a_removed_reference_is_gone(store: &impl Store) {
    let record = bare("a");
    let to = Some(id(&record));
    commit(store, of_snapshots(vec![record])).await;
    commit(
        store,
        of_references(vec![update("tag", Expected::Absent, to)]),
    )
    .await;
    commit(
        store,
        of_references(vec![update("tag", Expected::Any, None)]),
    )
    .await;
    assert_eq!(
        store.reference(ALICE, "tag").await.expect("reference"),
        None
    );
    assert_eq!(
        store
            .list_references(ALICE, "", None, 9)
            .await
            .expect("list"),
        []
    );
    commit(
        store,
        of_references(vec![update("tag", Expected::Any, None)]),
    )
    .await;
    commit(
        store,
        of_references(vec![update("tag", Expected::Absent, to)]),
    )
    .await;
    assert_eq!(store.reference(ALICE, "tag").await.expect("reference"), to);
}

/// Rejects empty names, names that are too long and control characters; accepts
/// all others.
pub async fn names_that_no_reference_can_have_are_refused(store: &impl Store) {
    let record = bare("a");
    let to = Some(id(&record));
    commit(store, of_snapshots(vec![record])).await;
    let (longest, too_long) = (
        "n".repeat(MAX_REFERENCE_BYTES),
        "n".repeat(MAX_REFERENCE_BYTES + 1),
    );
    for bad in ["", "a\nb", "\0", "\u{7f}", &too_long] {
        let update = update(bad, Expected::Any, to);
        assert_refused(store.commit(ALICE, of_references(vec![update])).await);
    }
    for good in [" ", "/", "a/b c", "größe", "\u{10ffff}", &longest] {
        commit(
            store,
            of_references(vec![update(good, Expected::Absent, to)]),
        )
        .await;
        assert_eq!(
            store.reference(ALICE, good).await.expect("reference"),
            to,
            "{good}"
        );
    }
}

/// Refs are listed in the order of their names, each once, for every size of a
/// page.
pub async fn references_are_listed_in_pages(store: &impl Store) {
    let record = bare("a");
    let to = id(&record);
    commit(store, of_snapshots(vec![record])).await;
    let names: Vec<_> = (0..23).map(|n| format!("tag/{}", n * 7 % 23)).collect();
    let updates = names
        .iter()
        .map(|name| update(name, Expected::Absent, Some(to)))
        .collect();
    commit(store, of_references(updates)).await;
    let mut expected = names;
    expected.sort();
    for limit in [1, 4, 23, 100] {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let after = seen.last().map(String::as_str);
            let page = store
                .list_references(ALICE, "tag/", after, limit)
                .await
                .expect("list");
            assert!(page.len() <= limit);
            assert!(page.iter().all(|(_, id)| *id == to));
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|(name, _)| name));
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
}

/// A prefix is compared byte by byte, for every value of `after`.
pub async fn references_are_listed_by_prefix(store: &impl Store) {
    let record = bare("a");
    let to = id(&record);
    commit(store, of_snapshots(vec![record])).await;
    let mut names = [
        "a",
        "a/",
        "a/b",
        "a/c",
        "ab",
        "b",
        "tag/1",
        "z\u{10ffff}",
        "z\u{10ffff}!",
    ];
    let updates = names
        .iter()
        .map(|name| update(name, Expected::Absent, Some(to)))
        .collect();
    commit(store, of_references(updates)).await;
    names.sort();
    for prefix in [
        "",
        "a",
        "a/",
        "a/b",
        "ab",
        "nothing",
        "tag",
        "z",
        "z\u{10ffff}",
    ] {
        for after in [
            None,
            Some(""),
            Some("a"),
            Some("a/b"),
            Some("a/bb"),
            Some("b"),
            Some("zz"),
        ] {
            let found = store
                .list_references(ALICE, prefix, after, 100)
                .await
                .expect("list");
            let found: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            let expected: Vec<_> = names
                .into_iter()
                .filter(|name| name.starts_with(prefix) && after.is_none_or(|after| *name > after))
                .collect();
            assert_eq!(found, expected, "prefix {prefix:?} after {after:?}");
        }
    }
}
