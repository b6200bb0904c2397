//! Checks of tags.

use futures::future::join_all;

use crate::catalog::*;
use crate::conformance::assertions::{
    assert_being_removed, assert_exists, assert_not_found, assert_refused,
};
use crate::conformance::backend::Backend;
use crate::conformance::catalog::text::HOSTILE;
use crate::conformance::samples::{
    AGENT, ALICE, BOB, KEY, add_project, at, furnished, id_of, project, snapshot,
};
use crate::error::{Error, Kind};
use crate::limits::{MAX_NAME_BYTES, MAX_PAGE, MAX_TEXT_BYTES};
use crate::records::Tag;

pub(crate) fn tag(project: &str, name: &str, version: u64) -> Tag {
    Tag {
        project: id_of(project),
        name: name.into(),
        snapshot: snapshot(version),
        key: id_of(KEY),
        agent: None,
        message: String::new(),
        created: at(200),
    }
}

/// The tag is read back with all its fields, and no other project finds it.
pub async fn a_tag_is_read_back_as_set(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for id in ["p", "q"] {
        add_project(&catalog, &project(ALICE, id)).await;
    }
    let full = Tag {
        agent: Some(id_of(AGENT)),
        message: "why\nnot".into(),
        ..tag("p", "v1", 1)
    };
    catalog.set_tag(ALICE, &full, false).await.expect("set");
    let bare = tag("q", "v1", 2);
    catalog.set_tag(ALICE, &bare, true).await.expect("set");
    let found = catalog.tag(ALICE, &id_of("p"), "v1").await.expect("tag");
    assert_eq!(found.as_ref(), Some(&full));
    let found = catalog
        .tags(ALICE, &id_of("q"), None, 10)
        .await
        .expect("tags");
    assert_eq!(found, [bare]);
    for (project, name) in [("p", "v2"), ("p", "V1"), ("x", "v1"), ("p", "")] {
        let project = &id_of(project);
        assert_eq!(catalog.tag(ALICE, project, name).await.expect("tag"), None);
        assert!(
            !catalog
                .remove_tag(ALICE, project, name)
                .await
                .expect("none")
        );
    }
    assert!(
        catalog
            .remove_tag(ALICE, &id_of("p"), "v1")
            .await
            .expect("removed")
    );
    assert!(
        !catalog
            .remove_tag(ALICE, &id_of("p"), "v1")
            .await
            .expect("gone")
    );
    assert_eq!(
        catalog.tag(ALICE, &id_of("p"), "v1").await.expect("tag"),
        None
    );
}

/// A tag that exists moves only with `may_move`.
pub async fn a_tag_moves_only_if_allowed(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let catalog = &handles[0];
    add_project(catalog, &project(ALICE, "p")).await;
    let tries = (1..=8).map(|n| {
        let catalog = &handles[n % 2];
        async move {
            let set = catalog
                .set_tag(ALICE, &tag("p", "v", n as u64), false)
                .await;
            match set {
                Ok(()) => Some(n as u64),
                Err(Error::Exists { what: Kind::Tag }) => None,
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    let won: Vec<_> = join_all(tries).await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "one of them");
    let found = catalog.tag(ALICE, &id_of("p"), "v").await.expect("tag");
    assert_eq!(found, Some(tag("p", "v", won[0])));
    let moved = tag("p", "v", 9);
    catalog.set_tag(ALICE, &moved, true).await.expect("moved");
    let again = catalog.set_tag(ALICE, &moved, false).await;
    assert_exists(again, Kind::Tag);
    let found = catalog.tag(ALICE, &id_of("p"), "v").await.expect("tag");
    assert_eq!(found, Some(moved));
    for (tenant, id) in [(BOB, "p"), (ALICE, "x")] {
        let unknown = catalog.set_tag(tenant, &tag(id, "w", 1), false).await;
        assert_not_found(unknown, Kind::Project);
    }
    let marked = catalog.begin_removal(ALICE, &id_of("p"), at(300)).await;
    marked.expect("marked");
    let late = catalog.set_tag(ALICE, &tag("p", "w", 1), true).await;
    assert_being_removed(late, Kind::Project);
}

/// The list is complete in pages of several lengths. Also checks promise 9.
pub async fn tags_are_listed_by_name(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for id in ["p", "q"] {
        add_project(&catalog, &project(ALICE, id)).await;
    }
    let longest = "x".repeat(MAX_NAME_BYTES);
    let mut names: Vec<_> = HOSTILE
        .into_iter()
        .chain([&*longest, "a", "b", "B"])
        .collect();
    for (n, name) in names.iter().enumerate() {
        let one = Tag {
            message: (*name).into(),
            ..tag("p", name, n as u64)
        };
        catalog.set_tag(ALICE, &one, false).await.expect("set");
        let found = catalog.tag(ALICE, &id_of("p"), name).await.expect("tag");
        assert_eq!(found, Some(one));
    }
    let other = tag("q", "elsewhere", 1);
    catalog.set_tag(ALICE, &other, false).await.expect("set");
    names.sort_unstable();
    for limit in [1, 3, MAX_PAGE] {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let page = catalog
                .tags(ALICE, &id_of("p"), seen.last().map(|it| &**it), limit)
                .await;
            let page = page.expect("tags");
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|one| one.name));
        }
        assert_eq!(seen, names, "in pages of {limit}");
    }
    for limit in [0, MAX_PAGE + 1] {
        assert_refused(catalog.tags(ALICE, &id_of("p"), None, limit).await);
    }
    for bad in ["", "a\0b", &"x".repeat(MAX_NAME_BYTES + 1)] {
        let set = catalog.set_tag(ALICE, &tag("p", bad, 1), true).await;
        assert_refused(set);
    }
    let wordy = Tag {
        message: "x".repeat(MAX_TEXT_BYTES + 1),
        ..tag("p", "new", 1)
    };
    assert_refused(catalog.set_tag(ALICE, &wordy, true).await);
}
