//! Reads the rows of sandboxes.

use elevo_catalog::{Catalog, NodeId, Sandbox, SandboxQuery};
use elevo_core::{ErrorCode, TenantId};
use elevo_sandbox::ContainerId;

use crate::failure::{Failure, Result};

/// Returns the sandboxes of all tenants, on all nodes.
pub(crate) async fn all_sandboxes(catalog: &dyn Catalog) -> Result<Vec<Sandbox>> {
    list(catalog, SandboxQuery::default()).await
}

/// Returns the sandboxes of all tenants on a node.
pub(crate) async fn sandboxes_on(catalog: &dyn Catalog, node: NodeId) -> Result<Vec<Sandbox>> {
    let query = SandboxQuery {
        node: Some(node),
        ..SandboxQuery::default()
    };
    list(catalog, query).await
}

/// Returns all sandboxes of a tenant.
pub(crate) async fn sandboxes_of(catalog: &dyn Catalog, tenant: TenantId) -> Result<Vec<Sandbox>> {
    let query = SandboxQuery {
        tenant: Some(tenant),
        ..SandboxQuery::default()
    };
    list(catalog, query).await
}

async fn list(catalog: &dyn Catalog, mut query: SandboxQuery) -> Result<Vec<Sandbox>> {
    let mut all = Vec::new();
    loop {
        let page = catalog.sandboxes(&query).await?;
        query.after = page.items.last().map(Sandbox::position);
        let is_last = page.items.is_empty();
        all.extend(page.items);
        if is_last {
            return Ok(all);
        }
    }
}

/// Returns the container in the row of a sandbox; `None` if the start has not
/// chosen one yet.
pub(crate) fn container_of(sandbox: &Sandbox) -> Option<ContainerId> {
    // The row gets the name of the container before the container is created,
    // so that every container can be found.
    ContainerId::new(sandbox.container.clone()?)
}

/// Returns the failure of an operation that the state of a sandbox does not
/// allow. `wanted` completes the sentence "it cannot …".
pub(crate) fn wrong_state(sandbox: &Sandbox, wanted: &str) -> Failure {
    let message = format!("the sandbox is {}, so it cannot {wanted}", sandbox.state);
    Failure::new(ErrorCode::SandboxWrongState, message)
        .about("sandboxId", sandbox.id.as_str())
        .about("state", sandbox.state.name())
}
