//! Sample tenants, agents, keys and sandboxes, and calls that must succeed.

use std::collections::BTreeMap;

use elevo_core::{Id, SandboxState, TenantId, Timestamp};
use serde_json::json;

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::conformance::backend::Backend;
use crate::nodes::NodeId;
use crate::query::{AddLimits, SandboxQuery};
use crate::records::{Agent, ApiKey, KeyLimits, Sandbox, Tenant};

pub(crate) const ALICE: TenantId = TenantId::new([0xa1; 16]);
/// The last tenant in byte order.
pub(crate) const BOB: TenantId = TenantId::new([0xff; 16]);
/// Id of the agent that each of the two tenants has.
pub(crate) const AGENT: &str = "agt-agent";
/// Id of a key that each tenant has and that is not bound to an agent.
pub(crate) const KEY: &str = "key";
/// Ids of two keys that each tenant has and that are bound to its agent.
pub(crate) const AGENT_KEYS: [&str; 2] = ["agent-key-1", "agent-key-2"];

pub(crate) const NO_LIMITS: AddLimits = AddLimits {
    per_key: None,
    total: None,
};

/// Parses a text as an id. If the text is not a valid id, adds the prefix
/// first.
pub(crate) fn id_of<T: Id>(text: &str) -> T {
    let id = text
        .parse()
        .or_else(|_| format!("{}{text}", T::PREFIX).parse());
    id.expect("an id")
}

/// Returns an id without its prefix.
pub(crate) fn short<T: Id>(id: &T) -> String {
    id.strip_prefix(T::PREFIX).unwrap_or(id).to_owned()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0).expect("no nanoseconds")
}

pub(crate) fn tenant(id: TenantId, name: &str) -> Tenant {
    Tenant::new(id, name, at(1))
}

pub(crate) fn agent(tenant: TenantId, id: &str) -> Agent {
    Agent {
        id: id_of(id),
        tenant,
        name: format!("name of {id}"),
        created: at(2),
    }
}

/// A key with a hash derived from its tenant and id.
pub(crate) fn key(tenant: TenantId, id: &str, agent: Option<&str>) -> ApiKey {
    let mut hash = [tenant.as_bytes()[0]; 32];
    hash[1..=id.len()].copy_from_slice(id.as_bytes());
    ApiKey {
        id: id_of(id),
        tenant,
        agent: agent.map(id_of),
        name: format!("name of {id}"),
        hash,
        scopes: vec!["sandboxes".into(), "commands".into()],
        limits: KeyLimits {
            sandboxes: Some(10),
            ..KeyLimits::default()
        },
        created: at(3),
        expires: None,
        revoked: None,
    }
}

/// A sandbox in state `starting`, created with [`KEY`].
pub(crate) fn sandbox(tenant: TenantId, id: &str) -> Sandbox {
    Sandbox {
        id: id_of(id),
        tenant,
        agent: None,
        key: id_of(KEY),
        name: None,
        state: SandboxState::Starting,
        reason: None,
        failure: None,
        template: "base".into(),
        container: None,
        workspace: id_of(&format!("workspace-of-{id}")),
        token_hash: [7; 32],
        created: at(100),
        expires: at(1000),
        updated: at(100),
        removing: false,
        keep_workspace: false,
        started_before: false,
        node: NodeId::FIRST,
        generation: 1,
        spec: json!({ "memory": 1 << 30, "env": { "A": "b" } }),
        metadata: BTreeMap::new(),
        project: None,
        base: None,
    }
}

/// Returns pairs of metadata.
pub(crate) fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).into(), (*value).into());
    pairs.iter().map(owned).collect()
}

pub(crate) fn of_state(state: SandboxState) -> SandboxChange {
    SandboxChange {
        to: Some(state),
        ..SandboxChange::default()
    }
}

pub(crate) fn removing() -> SandboxChange {
    SandboxChange {
        removing: Some(true),
        ..SandboxChange::default()
    }
}

pub(crate) fn of_tenant(tenant: TenantId) -> SandboxQuery {
    SandboxQuery {
        tenant: Some(tenant),
        ..SandboxQuery::default()
    }
}

/// Opens the catalog of a new backend and adds both tenants, their agents and
/// their keys.
pub(crate) async fn furnished<P: Backend>(backend: &P) -> P::Catalog {
    let catalog = backend.open().await;
    for (id, name) in [(ALICE, "alice"), (BOB, "bob")] {
        let added = catalog.add_tenant(&tenant(id, name)).await;
        added.expect("a new tenant");
        catalog
            .add_agent(&agent(id, AGENT))
            .await
            .expect("a new agent");
        let of_agent = AGENT_KEYS.map(|name| key(id, name, Some(AGENT)));
        for key in of_agent.iter().chain([&key(id, KEY, None)]) {
            catalog.add_key(key).await.expect("a new key");
        }
    }
    catalog
}

pub(crate) async fn add(catalog: &impl Catalog, sandbox: &Sandbox) {
    let added = catalog.add_sandbox(sandbox, NO_LIMITS).await;
    added.unwrap_or_else(|error| panic!("{}: {error:?}", sandbox.id));
}

pub(crate) async fn get(catalog: &impl Catalog, id: &str) -> Option<Sandbox> {
    let found = catalog.sandbox_of_any_tenant(&id_of(id)).await;
    found.expect("sandbox")
}

/// Returns the ids of a page of sandboxes, without their prefix.
pub(crate) async fn list(catalog: &impl Catalog, query: &SandboxQuery) -> Vec<String> {
    let page = catalog.sandboxes(query).await.expect("sandboxes");
    page.items.iter().map(|one| short(&one.id)).collect()
}
