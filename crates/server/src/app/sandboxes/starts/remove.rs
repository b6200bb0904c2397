//! Deletes sandboxes, and rolls back failed creations.

use crate::app::access::here::check_node;
use crate::app::sandboxes::spec::Spec;
use crate::app::sandboxes::starts::Starts;
use crate::failure::Result;
use crate::platform::clock;
use elevo_catalog::{Sandbox, SandboxChange};

impl Starts {
    /// Rolls back the creation of a sandbox. Marks the row first, so that the
    /// cleanup finishes a rollback that fails or is interrupted.
    pub(crate) async fn give_up(&self, sandbox: &Sandbox) {
        let id = &sandbox.id;
        let mark = SandboxChange {
            generation: Some(sandbox.generation),
            removing: Some(true),
            ..SandboxChange::default()
        };
        let given_up = async {
            let marked = self
                .catalog
                .change_sandbox(sandbox.tenant, id, &mark, clock::now());
            self.remove(&marked.await?).await
        };
        if let Err(failure) = given_up.await {
            tracing::error!(
                sandbox = %id,
                cause = failure.summary(),
                "cannot roll back the creation of a sandbox"
            );
        }
    }

    /// Deletes a sandbox that is marked for deletion: deletes its container,
    /// deletes or parks its workspace, and deletes its row. Each step can be
    /// repeated, so the cleanup calls this after an interruption.
    pub(crate) async fn remove(&self, sandbox: &Sandbox) -> Result<()> {
        // Its container would be on another machine, and lost.
        check_node(self.node, "sandbox", &sandbox.id, sandbox.node)?;
        let _held = self.locks.hold(&sandbox.id).await;
        self.containers.remove_container(&sandbox.id).await?;
        match sandbox.keep_workspace {
            // The erasure of the tenant deletes the workspace.
            _ if self.stores.is_closed(sandbox.tenant) => {}
            true => {
                let before = Spec::of(sandbox)?.before;
                match before.filter(|_| !sandbox.started_before) {
                    // The sandbox never started, so the workspace keeps its
                    // directory.
                    Some(before) if before.is_live => {}
                    Some(before) => {
                        let expires = before.expires.as_deref().and_then(clock::parse);
                        self.workspaces.park_until(sandbox, expires).await?;
                    }
                    None => self.workspaces.park_workspace(sandbox).await?,
                }
            }
            false => {
                let id = sandbox.workspace.clone();
                self.stores.remove_workspace(sandbox.tenant, id).await?;
                self.catalog
                    .remove_workspace(sandbox.tenant, &sandbox.workspace)
                    .await?;
            }
        }
        self.catalog
            .remove_sandbox(sandbox.tenant, &sandbox.id, clock::now())
            .await?;
        tracing::info!(sandbox = %sandbox.id, "deleted a sandbox");
        Ok(())
    }
}
