//! Rejects requests about sandboxes and workspaces that are on the node of another
//! server: their files and containers are on another machine.

use std::sync::Arc;

use elevo_catalog::{Catalog, NodeId};
use elevo_core::{ErrorCode, SandboxId, WorkspaceId};

use crate::app::access::principal::Principal;
use crate::app::resources::Resources;
use crate::failure::{Failure, Result};

/// The node of this server.
pub(crate) struct Here {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    /// Whether there are no other servers.
    is_alone: bool,
}

impl Here {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            is_alone: resources.installation.is_alone(),
        }
    }

    /// Fails if a sandbox is on another node. A sandbox that does not exist passes.
    pub(crate) async fn check_sandbox(&self, who: &Principal, id: &SandboxId) -> Result<()> {
        if self.is_alone {
            return Ok(());
        }
        let node = match who.asked.node(id) {
            Some(node) => Some(node),
            None => {
                let found = self.catalog.sandbox(who.tenant, id).await?;
                found.filter(|row| who.sees(row)).map(|row| row.node)
            }
        };
        self.check("sandbox", id.as_str(), node)
    }

    /// Fails if a workspace is on another node. A workspace that does not exist
    /// passes.
    pub(crate) async fn check_workspace(&self, who: &Principal, id: &WorkspaceId) -> Result<()> {
        if self.is_alone {
            return Ok(());
        }
        let found = self.catalog.workspace(who.tenant, id).await?;
        let found = found.filter(|row| who.sees_agent(row.agent.as_ref()));
        self.check("workspace", id.as_str(), found.map(|row| row.node))
    }

    fn check(&self, thing: &str, id: &str, node: Option<NodeId>) -> Result<()> {
        node.map_or(Ok(()), |node| check_node(self.node, thing, id, node))
    }
}

/// Fails if a sandbox or workspace on `node` is not on this server, whose node is
/// `own`.
pub(crate) fn check_node(own: NodeId, thing: &str, id: &str, node: NodeId) -> Result<()> {
    if node == own {
        return Ok(());
    }
    let message = format!("the {thing} `{id}` is on another server");
    Err(Failure::new(ErrorCode::OnAnotherServer, message))
}
