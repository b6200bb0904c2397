//! Rolls back creations, and deletes sandboxes.

use crate::app::sandboxes::starts::Starts;
use crate::app::tenant_stores::{self};
use crate::failure::Result;
use crate::platform::clock;
use elevo_catalog::{Sandbox, SandboxChange};

impl Starts {
    /// Rolls back a creation. The row is marked first, so that the next cleanup
    /// finishes a rollback that fails.
    pub(crate) async fn give_up(&self, id: &str) {
        let mark = SandboxChange {
            removing: Some(true),
            ..SandboxChange::default()
        };
        let given_up = async {
            let sandbox = self.catalog.change_sandbox(id, &mark, clock::now()).await?;
            self.remove(&sandbox).await
        };
        if let Err(failure) = given_up.await {
            tracing::error!(
                sandbox = id,
                cause = failure.summary(),
                "cannot roll back the creation of a sandbox"
            );
        }
    }

    /// Deletes everything of a sandbox that is marked for deletion. After an
    /// interruption it starts over.
    pub(crate) async fn remove(&self, sandbox: &Sandbox) -> Result<()> {
        let _held = self.locks.hold(&sandbox.id).await;
        self.containers.remove_container(&sandbox.id).await?;
        match sandbox.keep_workspace {
            // The erasure of its tenant deletes the workspace.
            _ if self.stores.is_closed(sandbox.tenant) => {}
            true => self.workspaces.park_workspace(sandbox).await?,
            false => {
                let id = tenant_stores::workspace_id(&sandbox.workspace)?;
                self.stores.remove_workspace(sandbox.tenant, id).await?;
                self.catalog
                    .remove_workspace(sandbox.tenant, &sandbox.workspace)
                    .await?;
            }
        }
        self.catalog
            .remove_sandbox(&sandbox.id, clock::now())
            .await?;
        tracing::info!(sandbox = sandbox.id, "sandbox deleted");
        Ok(())
    }
}
