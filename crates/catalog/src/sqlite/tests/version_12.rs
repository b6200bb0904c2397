//! Tests of a catalog that version 12 wrote, in which the reason of a sandbox
//! stated whether the sandbox was started before and how it failed.

use super::{Temporary, id_of};
use crate::SandboxFailure;
use crate::conformance::Backend;

#[tokio::test]
async fn a_catalog_of_version_12_keeps_the_history_of_its_sandboxes() {
    let temporary = Temporary::new();
    temporary.restore(include_str!("version-12.sql")).await;
    let catalog = temporary.open().await;
    for (id, expected) in [
        ("sbx-new", false),
        ("sbx-again", true),
        ("sbx-running", true),
        ("sbx-failed", true),
    ] {
        let found = catalog.sandbox_of_any_tenant(&id_of(id)).await.unwrap();
        assert_eq!(found.unwrap().started_before, expected, "{id}");
    }
    for (id, expected) in [
        ("sbx-again", None),
        ("sbx-failed", Some(SandboxFailure::ContainerEnded)),
        ("sbx-killed", Some(SandboxFailure::ContainerEnded)),
        ("sbx-lost", Some(SandboxFailure::AgentLost)),
        ("sbx-unstarted", None),
    ] {
        let found = catalog.sandbox_of_any_tenant(&id_of(id)).await.unwrap();
        assert_eq!(found.unwrap().failure, expected, "{id}");
    }
    let setting = async |name| catalog.setting(name).await.unwrap();
    assert_eq!(setting("kept-workspace:sbx-old").await, None);
    assert_eq!(setting("installation").await.as_deref(), Some("i"));
}
