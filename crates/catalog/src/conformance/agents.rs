//! Checks of agents.

use elevo_core::TenantId;

use crate::catalog::*;
use crate::conformance::assertions::{assert_exists, assert_not_found};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{AGENT, ALICE, BOB, agent, furnished, id_of};
use crate::error::Kind;

/// Adding a second agent with the same id or name to a tenant fails; another tenant
/// can use both.
pub async fn an_agent_is_added_once_to_its_tenant(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let mut same_name = agent(ALICE, "another-id");
    same_name.name = agent(ALICE, AGENT).name;
    for taken in [agent(ALICE, AGENT), same_name] {
        assert_exists(catalog.add_agent(&taken).await, Kind::Agent);
    }
    let unknown = TenantId::new([3; 16]);
    assert_not_found(catalog.add_agent(&agent(unknown, "x")).await, Kind::Owner);
    for id in [ALICE, BOB] {
        let agents = catalog.agents(id).await.expect("agents");
        assert_eq!(agents, [agent(id, AGENT)]);
        let found = catalog.agent(id, &id_of(AGENT)).await.expect("agent");
        assert_eq!(found, Some(agent(id, AGENT)));
        let name = agent(id, AGENT).name;
        let found = catalog.agent_by_name(id, &name).await.expect("agent");
        assert_eq!(found, Some(agent(id, AGENT)));
    }
    let found = catalog.agent_by_name(ALICE, "no such name").await;
    assert_eq!(found.expect("agent"), None);
    let found = catalog
        .agent(ALICE, &id_of("another-id"))
        .await
        .expect("agent");
    assert_eq!(found, None);
}
