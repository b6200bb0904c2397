//! Takes snapshots of workspaces, and restores workspaces to snapshots.

use std::sync::Arc;

use elevo_api as api;
use elevo_core::{SandboxId, WorkspaceId};
use elevo_engine::{Progress, StateTree};
use elevo_objects::SnapshotId;
use futures::executor::block_on;
use tracing::Instrument;

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::files::target::{Need, Target, WorkspaceRef};
use crate::app::missing::no_workspace;
use crate::app::projects::trees::committed;
use crate::app::sandboxes::spec;
use crate::app::snapshots::records::TakenSnapshot;
use crate::app::snapshots::{Kept, info, losses_out, tree_text};
use crate::failure::{Failure, Result};
use crate::platform::clock;
use crate::platform::trace::step;

impl Files {
    /// Takes a snapshot of a workspace, and records it for the principal.
    pub(crate) async fn snapshot(
        self: &Arc<Self>,
        who: &Principal,
        of: WorkspaceRef,
        wish: api::TakeSnapshot,
    ) -> Result<api::SnapshotTaken> {
        let (app, who, tenant) = (self.clone(), who.clone(), who.tenant);
        // A separate task, so that the snapshot is recorded even if the client
        // disconnects.
        let taking = async move { app.take(&who, &of, wish).await };
        let taking = self.stores.spawn(tenant, taking.in_current_span());
        taking.await.map_err(|error| Failure::internal(&error))?
    }

    async fn take(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        wish: api::TakeSnapshot,
    ) -> Result<api::SnapshotTaken> {
        if wish.message.len() > 10_000 {
            return Err(Failure::invalid("`message` must have at most 10000 bytes"));
        }
        let started = clock::instant();
        let (target, _held) = self.held(who, of, Need::Write).await?;
        if let Some(name) = &wish.name {
            self.snapshots.check_name(who, name, &target.id).await?;
        }
        let frozen = self.frozen(&target);
        let info = info(who, wish.message.clone());
        let repository = self.stores.repository(target.tenant);
        let id = target.id.clone();
        let taken = self.stores.with(target.tenant, move |workspaces| {
            let taken = workspaces.snapshot(&id, info, &frozen, &Progress::new())?;
            let tree = block_on(repository.snapshot(taken.id))?.tree;
            Ok((taken, tree))
        });
        let (mut taken, tree) = taken.instrument(step!("workspace.snapshot")).await?;
        let own = self.own_snapshot(who, taken.id, &wish).await?;
        if let Some(own) = &own {
            (taken.id, taken.is_new) = (own.id, true);
        }
        crate::platform::metrics::snapshot_taken(started.elapsed());
        let record = TakenSnapshot {
            id: taken.id,
            tree,
            workspace: Some(target.id),
            message: wish.message,
            name: wish.name,
        };
        self.snapshots.record(who, record).await?;
        Ok(api::SnapshotTaken {
            id: taken.id.to_string(),
            tree: tree_text(&tree),
            is_new: taken.is_new,
            not_kept: losses_out(&taken.losses),
        })
    }

    /// Stores a snapshot again for the principal if another agent has a record of
    /// it, or if it has another name: a record has one agent and one name.
    async fn own_snapshot(
        &self,
        who: &Principal,
        id: SnapshotId,
        wish: &api::TakeSnapshot,
    ) -> Result<Option<Kept>> {
        let Some(record) = self.snapshots.recorded(who, id).await? else {
            return Ok(None);
        };
        let has_other_name = wish.name.is_some() && record.name.is_some();
        let has_other_name = has_other_name && wish.name != record.name;
        if record.agent == who.agent && !has_other_name {
            return Ok(None);
        }
        let repository = self.stores.repository(who.tenant);
        let tree = StateTree::open(&repository, id).await?;
        let info = info(who, wish.message.clone());
        Ok(Some(committed(&tree, info).await?))
    }

    /// Restores the workspace of a sandbox to a snapshot.
    pub(crate) async fn restore_sandbox(
        &self,
        who: &Principal,
        id: &SandboxId,
        wish: api::Restore,
    ) -> Result<api::Sandbox> {
        let target = self.restore(who, id.into(), wish).await?;
        let sandbox = target.sandbox.ok_or_else(|| Failure::no_sandbox(id))?;
        spec::out(&sandbox)
    }

    /// Restores a workspace to a snapshot.
    pub(crate) async fn restore_workspace(
        &self,
        who: &Principal,
        id: &WorkspaceId,
        wish: api::Restore,
    ) -> Result<api::Workspace> {
        let target = self.restore(who, id.into(), wish).await?;
        let row = target.row.ok_or_else(|| no_workspace(id))?;
        self.workspaces.out(&row).await
    }

    async fn restore(
        &self,
        who: &Principal,
        of: WorkspaceRef,
        wish: api::Restore,
    ) -> Result<Target> {
        let (target, _held) = self.held(who, &of, Need::Write).await?;
        let snapshot = self.snapshots.snapshot_id(who, &wish.snapshot).await?;
        let id = target.id.clone();
        let frozen = self.frozen(&target);
        let restored = self.stores.with(target.tenant, move |workspaces| {
            workspaces.restore(&id, snapshot.id, &frozen, &Progress::new())?;
            Ok(())
        });
        restored.await?;
        Ok(target)
    }
}
