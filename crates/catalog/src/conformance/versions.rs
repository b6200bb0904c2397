//! Checks of the history of paths.

use std::collections::BTreeSet;

use elevo_core::TreePath;
use elevo_objects::{Content, Entry, Hash, Link, Mode, Tree};

use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, add_project, added, added_whole, at, directory, file, furnished, id_of, land_each, path,
    project, snapshot,
};
use crate::limits::MAX_PAGE;
use crate::records::{PathChange, VersionKind};

/// Returns the history of a path, newest first: the sequence number of each
/// landing and the path that it changed.
async fn history(catalog: &impl Catalog, of: &str) -> Vec<(u64, String)> {
    let found = catalog
        .versions_of(ALICE, &id_of("p"), &path(of), None, MAX_PAGE)
        .await;
    let found = found.expect("versions").into_iter();
    found
        .map(|it| (it.sequence, it.change.path.to_string()))
        .collect()
}

/// A directory above the path counts only where it changed as a whole.
pub async fn the_history_of_a_path_has_every_change_of_it(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    let mode = |at, before, after| PathChange {
        kind: VersionKind::Mode,
        before: Some(before),
        after: Some(after),
        ..added(at, 0)
    };
    let removed = |at, files| PathChange {
        kind: VersionKind::Removed,
        before: Some(directory(files)),
        after: None,
        ..added_whole(at, files)
    };
    let empty = PathChange {
        after: Some(Entry::Directory {
            mode: Mode::EXECUTABLE,
            tree: Tree::EMPTY,
        }),
        files: 0,
        ..added("a/b", 0)
    };
    let landings = [
        vec![added_whole("", 1_000_000)],
        vec![added("a", 1), added("a-b", 1)],
        vec![mode("a", directory(1), directory(1)), added("a/b/d", 1)],
        vec![added_whole("a", 1), added_whole("b", 3)],
        vec![empty],
        vec![added_whole("a/b", 2), added("a/b/c", 1)],
        vec![mode("a/b/c", file(1), file(1)), added("a/b/cc", 1)],
        vec![removed("a", 5)],
    ];
    land_each(&catalog, &one, landings).await;
    let expected = [
        (8, "a"),
        (7, "a/b/c"),
        // This landing changed `a/b` and `a/b/c`; the nearer path counts.
        (6, "a/b/c"),
        (4, "a"),
        (1, ""),
    ];
    let expected = expected.map(|(n, at)| (n, at.to_owned()));
    assert_eq!(history(&catalog, "a/b/c").await, expected);
    let of_unknown: Vec<_> = history(&catalog, "a/b/x").await;
    let of_unknown: Vec<_> = of_unknown.into_iter().map(|(n, _)| n).collect();
    assert_eq!(of_unknown, [8, 6, 4, 1]);
    let of_directory: Vec<_> = history(&catalog, "a").await;
    let of_directory: Vec<_> = of_directory.into_iter().map(|(n, _)| n).collect();
    assert_eq!(of_directory, [8, 4, 3, 2, 1]);
    assert_eq!(history(&catalog, "").await, [(1, String::new())]);
    let last = catalog
        .last_version(ALICE, &id_of("p"), &path("a/b/cc"))
        .await;
    assert_eq!(last.expect("version").map(|it| it.sequence), Some(8));
    let last = catalog
        .last_version(ALICE, &id_of("p"), &path("b"))
        .await
        .expect("version");
    assert_eq!(last.map(|it| it.change), Some(added_whole("b", 3)));
    let nowhere = catalog.last_version(ALICE, &id_of("q"), &path("b")).await;
    assert_eq!(nowhere.expect("version"), None);
}

/// Each landing has one entry, for the first path that it changed.
pub async fn the_changes_below_a_directory_are_found(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    let landings = [
        vec![added("a", 1), added("a/b", 1), added("a/c", 1)],
        vec![added("a-b", 1), added("ab", 1)],
        vec![added_whole("a", 1)],
        vec![added("a/c/d", 1), added("b", 1)],
    ];
    land_each(&catalog, &one, landings).await;
    let below = async |of: &str, before, limit| {
        let found = catalog
            .versions_below(ALICE, &id_of("p"), &path(of), before, limit)
            .await;
        let found = found.expect("versions").into_iter();
        let found = found.map(|it| (it.sequence, it.change.path.to_string()));
        found.collect::<Vec<_>>()
    };
    let entry = |n, at: &str| (n, at.to_owned());
    let all = [entry(4, "a/c/d"), entry(1, "a/b")];
    assert_eq!(below("a", None, MAX_PAGE).await, all);
    assert_eq!(below("a", None, 1).await, all[..1]);
    assert_eq!(below("a", Some(4), 1).await, all[1..]);
    assert_eq!(below("a/c", None, 10).await, all[..1]);
    assert!(below("b", None, 10).await.is_empty());
    let firsts: Vec<_> = below("", None, 10)
        .await
        .into_iter()
        .map(|it| it.1)
        .collect();
    assert_eq!(firsts, ["a/c/d", "a", "a-b", "a"]);
    for limit in [0, MAX_PAGE + 1] {
        let refused = catalog
            .versions_below(ALICE, &id_of("p"), &path("a"), None, limit)
            .await;
        assert_refused(refused);
    }
}

/// Each history is compared with a plain list of all changes.
pub async fn histories_are_complete_in_pages_of_any_length(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    let names = ["", "a", "a/a", "a/b", "a/a/a", "a/a/b", "ab", "b"];
    // Any pseudorandom sequence will do, if each run has the same one.
    let mut random = 0x9e37_79b9_u64;
    let mut below = move |n: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % n
    };
    let landings: Vec<Vec<PathChange>> = (0..60)
        .map(|_| {
            let count = 1 + below(3);
            let picked: BTreeSet<_> = (0..count).map(|_| below(8) as usize).collect();
            let change = |n: usize| match below(2) {
                0 => added(names[n], 1),
                _ => added_whole(names[n], 2),
            };
            picked.into_iter().map(change).collect()
        })
        .collect();
    land_each(&catalog, &one, landings.clone()).await;
    for name in names {
        let of = path(name);
        let mut expected = Vec::new();
        for (n, changes) in (1..).zip(&landings) {
            let concerns = changes.iter().filter(|change| {
                change.path == of || (change.is_whole() && of.starts_with(&change.path))
            });
            let nearest = concerns.max_by_key(|change| change.path.as_bytes().len());
            expected.extend(nearest.map(|change| (n, change.clone())));
        }
        expected.reverse();
        for limit in [1, 3, MAX_PAGE] {
            let mut seen = Vec::new();
            let mut before = None;
            loop {
                let page = catalog
                    .versions_of(ALICE, &id_of("p"), &of, before, limit)
                    .await;
                let page = page.expect("versions");
                assert!(page.len() <= limit as usize);
                let Some(last) = page.last() else { break };
                before = Some(last.sequence);
                seen.extend(page.into_iter().map(|it| (it.sequence, it.change)));
            }
            assert_eq!(seen, expected, "{name:?} in pages of {limit}");
        }
    }
}

/// Changes are in the order of the tree, in pages of any length.
pub async fn the_changes_of_a_landing_are_listed_by_path(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    let mut names = ["", "a", "a/b", "a/b/c", "a/c", "a-b", "a.b", "ab", "b/a"];
    let expected = names;
    names.reverse();
    let changes = names.map(|name| added(name, 1));
    land_each(&catalog, &one, [vec![added("other", 1)], changes.into()]).await;
    for limit in [1, 2, MAX_PAGE] {
        let mut seen: Vec<TreePath> = Vec::new();
        loop {
            let page = catalog
                .versions_in(ALICE, &id_of("p"), 2, seen.last(), limit)
                .await;
            let page = page.expect("versions");
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit as usize);
            seen.extend(page.into_iter().map(|it| it.change.path));
        }
        assert_eq!(seen, expected.map(path), "in pages of {limit}");
    }
    for (project, sequence) in [("p", 3), ("p", 0), ("p", u64::MAX), ("q", 2)] {
        let none = catalog
            .versions_in(ALICE, &id_of(project), sequence, None, 10)
            .await;
        assert!(none.expect("versions").is_empty());
    }
    for limit in [0, MAX_PAGE + 1] {
        assert_refused(
            catalog
                .versions_in(ALICE, &id_of("p"), 1, None, limit)
                .await,
        );
        assert_refused(
            catalog
                .versions_of(ALICE, &id_of("p"), &path("a"), None, limit)
                .await,
        );
    }
}

/// Checks paths with arbitrary bytes, and every kind of entry.
pub async fn any_change_of_a_path_is_read_back_unchanged(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    let hash = Hash::from_bytes([0xff; 32]);
    let mode = Mode::from_bits(0o777);
    let file = |content| Entry::File { mode, content };
    let size = u64::MAX;
    let entries = [
        None,
        Some(file(Content::Empty)),
        Some(file(Content::Chunk { hash, size: 1 })),
        Some(file(Content::List { hash, size })),
        Some(directory(u64::MAX)),
        Some(Entry::Link(Link { hash, size: 9 })),
    ];
    let deepest = "a/".repeat(2047) + "a";
    let longest = "x".repeat(255);
    let paths: [&[u8]; 9] = [
        b"",
        b"\xff\xfe",
        b"a\x01b",
        b"' OR 1=1 --",
        b"%_/*?",
        b"\n",
        "ä/🦀".as_bytes(),
        deepest.as_bytes(),
        longest.as_bytes(),
    ];
    for (n, bytes) in paths.into_iter().enumerate() {
        let at_path = TreePath::new(bytes).expect("a path");
        let change = PathChange {
            path: at_path.clone(),
            kind: [
                VersionKind::Added,
                VersionKind::Modified,
                VersionKind::Removed,
                VersionKind::Renamed,
                VersionKind::Mode,
            ][n % 5],
            from: (n % 2 == 0).then(|| at_path.clone()),
            before: entries[n % 6].clone(),
            after: entries[(n + 1) % 6].clone(),
            files: if n == 8 { i64::MAX as u64 } else { 0 },
            algorithm: "x".repeat(n + 1),
        };
        land_each(&catalog, &one, [vec![change.clone()]]).await;
        let found = catalog
            .last_version(ALICE, &id_of("p"), &at_path)
            .await
            .expect("version");
        let found = found.expect("it landed");
        assert_eq!(found.change, change);
        let sequence = n as u64 + 1;
        assert_eq!(
            (found.sequence, found.snapshot),
            (sequence, snapshot(sequence))
        );
        assert_eq!(found.created, at(200));
    }
}
