//! Tests of a catalog that version 4 wrote, with retention and tags.

use super::version_2::{TENANT, at, log, project, snapshot};
use super::{Temporary, id_of};
use crate::conformance::Backend;
use crate::records::{Project, Retention, Tag};

#[tokio::test]
async fn a_catalog_of_version_4_is_read() {
    let temporary = Temporary::new();
    temporary.restore(include_str!("version-4.sql")).await;
    let catalog = temporary.open().await;
    let expected = Project {
        retention: Retention::Daily(30),
        ..project()
    };
    let found = catalog.project(TENANT, &id_of("prj-1")).await.unwrap();
    assert_eq!(found, Some(expected));
    let mut entries = log();
    entries[1].dropped = Some(at(4));
    assert_eq!(
        catalog
            .log(TENANT, &id_of("prj-1"), None, 10)
            .await
            .unwrap(),
        entries
    );
    for (which, projects) in [(0, vec!["prj-1"]), (1, vec!["prj-1"]), (2, vec![])] {
        let found = catalog.dropped_from(TENANT, snapshot(which)).await;
        assert_eq!(found.unwrap(), projects);
    }
    let one = Tag {
        project: id_of("prj-1"),
        name: "v1".into(),
        snapshot: snapshot(2),
        key: id_of("key-1"),
        agent: Some(id_of("agt-1")),
        message: "as shown".into(),
        created: at(5),
    };
    let two = Tag {
        name: "v2".into(),
        agent: None,
        message: String::new(),
        created: at(6),
        ..one.clone()
    };
    let found = catalog
        .tags(TENANT, &id_of("prj-1"), None, 10)
        .await
        .unwrap();
    assert_eq!(found, [one, two]);
}
