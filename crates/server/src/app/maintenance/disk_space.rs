//! Keeps the server working on a disk that becomes full: releases the reserve,
//! limits the growth of workspaces, and returns to normal operation when there
//! is free space.

use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::AgentLinks;
use elevo_catalog::Catalog;
use elevo_catalog::{NodeId, Sandbox, Workspace, WorkspaceState};
use elevo_core::{ErrorCode, SandboxState, TenantId, WorkspaceId};
use elevo_engine::Progress;
use elevo_sandbox::SandboxRuntime;
use elevo_workspace::{Error as WorkspaceError, NeverFreeze, State};
use tokio::task::JoinSet;

use crate::app::resources::Resources;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::sandboxes::rows::{container_of, sandboxes_of};
use crate::app::sandboxes::starts::Starts;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::app::tenant_stores::{self, TenantStores};
use crate::app::workspaces::Workspaces;
use crate::app::workspaces::parking::parked_info;
use crate::config::Config;
use crate::failure::{Failure, Result, log_failure};
use crate::platform::room::{Room, Tended};

/// Interval between two checks of the free space.
const LOOK: Duration = Duration::from_millis(200);
/// Interval between two adjustments of the workspaces. It is longer because on a
/// nearly full disk each adjustment syncs the file systems of the workspaces.
const CAP: Duration = Duration::from_secs(1);

/// On a full disk, one in this many adjustments reclaims the space of deleted
/// workspaces.
const GIVE_BACK: u32 = 5;

/// Maximum time to wait for the lock of a sandbox before a remount.
const TURN: Duration = Duration::from_secs(2);

/// The reason of a sandbox that failed because its files could not be written.
const STUCK: &str = "the server's disk was full; changes to files after their last sync are lost";

/// Keeps the server working on a disk that becomes full.
pub(crate) struct DiskSpace {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    config: Arc<Config>,
    links: AgentLinks,
    locks: Arc<SandboxLocks>,
    room: Arc<Room>,
    runtime: Arc<dyn SandboxRuntime>,
    stores: Arc<TenantStores>,
    pools: Arc<WarmPools>,
    starts: Arc<Starts>,
    workspaces: Arc<Workspaces>,
}

impl DiskSpace {
    pub(crate) fn new(
        resources: &Resources,
        pools: &Arc<WarmPools>,
        starts: &Arc<Starts>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            config: resources.config.clone(),
            links: resources.links.clone(),
            locks: resources.locks.clone(),
            pools: pools.clone(),
            room: resources.room.clone(),
            runtime: resources.runtime.clone(),
            starts: starts.clone(),
            stores: resources.stores.clone(),
            workspaces: workspaces.clone(),
        }
    }

    /// Checks the free space until the server stops, and releases parts of the
    /// reserve when it is needed. The loop must not wait for slow work: writes
    /// fail until the reserve is released.
    pub(crate) async fn watch_room(self: &Arc<Self>) {
        let mut was_full = false;
        // The set cancels its tasks when this function is cancelled.
        let mut storing = JoinSet::new();
        loop {
            let room = self.room.clone();
            let tended = tenant_stores::blocking(move || Ok(room.tend())).await;
            if let Ok(Tended::GivenUp(left)) = tended {
                tracing::warn!(left, "the disk is full; a part of the reserve was released");
            }
            let is_full = self.room.is_full();
            if is_full != was_full {
                self.room_changed(is_full, &mut storing);
            }
            was_full = is_full;
            while storing.try_join_next().is_some() {}
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Adjusts the limits of workspaces to the free space until the server stops.
    pub(crate) async fn watch_workspaces(self: &Arc<Self>) {
        // An earlier server process may have limited the workspaces.
        let mut is_capped = true;
        for look in 0_u32.. {
            self.remount_pools().await;
            is_capped = self.cap_workspaces(is_capped).await;
            self.room.has_capped();
            if look.is_multiple_of(GIVE_BACK) && self.room.is_full() {
                self.trim_volume().await;
            }
            tokio::time::sleep(CAP).await;
        }
    }

    fn room_changed(self: &Arc<Self>, is_full: bool, storing: &mut JoinSet<()>) {
        let percent = self.config.full_percent;
        if is_full {
            tracing::warn!(
                percent,
                "the disk is full; requests that need space are rejected until it has free space"
            );
            return;
        }
        tracing::info!(percent, "the disk has free space; requests are accepted");
        self.pools.check_soon();
        let app = self.clone();
        storing.spawn(async move { app.store_parked().await });
    }

    /// Limits the growth of workspaces while the disk is nearly full, and
    /// restores their configured limits afterwards. Returns true if some
    /// workspaces may still be limited.
    async fn cap_workspaces(&self, is_capped: bool) -> bool {
        let is_tight = self.room.is_tight();
        if !is_tight && !is_capped {
            return false;
        }
        // All workspaces together must not use more than the space that is left.
        let growth = match is_tight {
            true => Some(self.room.left() / self.count_live().await.max(1)),
            false => None,
        };
        let mut has_failed = false;
        for tenant in self.stores.known() {
            let capping = self
                .stores
                .with(tenant, move |workspaces| Ok(workspaces.cap_growth(growth)?));
            if let Err(failure) = capping.await {
                let cause = failure.summary();
                tracing::debug!(%tenant, cause, "cannot adjust the limits of workspaces");
                has_failed = true;
            }
        }
        is_tight || has_failed
    }

    /// Frees the space that deleted workspaces occupy in the pools of uppers.
    async fn trim_volume(&self) {
        for tenant in self.stores.known() {
            let giving = self
                .stores
                .with(tenant, |workspaces| Ok(workspaces.trim_volume()?));
            if let Err(failure) = giving.await {
                let cause = failure.summary();
                tracing::debug!(%tenant, cause, "cannot free the space of deleted workspaces");
            }
        }
    }

    async fn count_live(&self) -> u64 {
        let mut count = 0;
        for tenant in self.stores.known() {
            let counting = self
                .stores
                .with(tenant, |workspaces| Ok(workspaces.count_live()?));
            count += counting.await.unwrap_or_default();
        }
        count as u64
    }

    /// Remounts the pools of uppers that became read-only because the disk was
    /// full. The sandboxes of such a pool fail, because writes to their files
    /// were lost.
    async fn remount_pools(&self) {
        for tenant in self.stores.known() {
            let directory = self.stores.directory(tenant);
            let looking =
                tenant_stores::blocking(move || Ok(elevo_workspace::is_pool_stuck(&directory)));
            if !looking.await.unwrap_or(false) || !self.room.is_passable() {
                continue;
            }
            tracing::error!(
                %tenant,
                "the disk was full and the tenant's workspaces became read-only"
            );
            let remounted = self.remount_pool(tenant).await;
            log_failure(
                remounted,
                "tenant",
                &tenant.to_string(),
                "cannot remount the pool of uppers; the next check retries",
            );
        }
    }

    async fn remount_pool(&self, tenant: TenantId) -> Result<()> {
        // The locks keep the sandboxes from starting until the pool is mounted.
        let mut held = Vec::new();
        let all = sandboxes_of(&*self.catalog, tenant).await?;
        for sandbox in all.iter().filter(|sandbox| sandbox.node == self.node) {
            let Ok(guard) = tokio::time::timeout(TURN, self.locks.hold(&sandbox.id)).await else {
                let message = format!(
                    "another operation holds the lock of sandbox `{}`",
                    sandbox.id
                );
                return Err(Failure::new(ErrorCode::WorkspaceBusy, message));
            };
            held.push(guard);
            // The row may have changed before the lock was acquired.
            if let Some(row) = self.catalog.sandbox(tenant, &sandbox.id).await? {
                self.end_stuck(&row).await?;
            }
        }
        let directory = self.stores.directory(tenant);
        tenant_stores::blocking(move || Ok(elevo_workspace::remount_pool(&directory)?)).await?;
        tracing::info!(%tenant, "the tenant's workspaces are writable again");
        drop(held);
        // Removals that failed on the read-only pool are completed now, since
        // they free space.
        let tidying = self
            .stores
            .with(tenant, |workspaces| Ok(workspaces.tidy()?));
        let what = "cannot complete removals of workspaces; a later run retries";
        log_failure(tidying.await, "tenant", &tenant.to_string(), what);
        Ok(())
    }

    async fn end_stuck(&self, sandbox: &Sandbox) -> Result<()> {
        if let Some(container) = container_of(sandbox) {
            self.runtime.kill(&container).await?;
        }
        self.links.forget(&sandbox.id);
        if sandbox.state == SandboxState::Running {
            let (from, reason) = ([SandboxState::Running], Some(STUCK.to_owned().into()));
            let changed = self
                .starts
                .change(sandbox, &from, SandboxState::Error, reason);
            changed.await?;
        }
        Ok(())
    }

    /// Stores the files of workspaces that were parked while the disk was full.
    /// Such files have stayed in the directories of the workspaces.
    pub(crate) async fn store_parked(&self) {
        for tenant in self.stores.known() {
            let listed = self
                .stores
                .with(tenant, |workspaces| Ok(workspaces.list()?));
            let what = "cannot list the workspaces of a tenant";
            let listed = log_failure(listed.await, "tenant", &tenant.to_string(), what);
            for record in listed.into_iter().flatten() {
                if record.state == State::Live && !self.room.is_full() {
                    let stored = self.store_one(tenant, &record.id).await;
                    log_failure(
                        stored,
                        "workspace",
                        record.id.as_str(),
                        "cannot move a parked workspace into the store; the next run retries",
                    );
                }
            }
        }
    }

    async fn store_one(&self, tenant: TenantId, id: &WorkspaceId) -> Result<()> {
        let is_parked =
            |row: &Workspace| row.state == WorkspaceState::Parked && row.node == self.node;
        let row = self.catalog.workspace(tenant, id).await?;
        let Some(row) = row.filter(is_parked) else {
            return Ok(());
        };
        let held = self.workspaces.hold_workspace(&row).await?;
        // The workspace may have been resumed or deleted before the lock was
        // acquired.
        let row = self.catalog.workspace(tenant, id).await?;
        let Some(row) = row.filter(is_parked) else {
            return Ok(());
        };
        if held.sandbox.is_some() {
            return Ok(());
        }
        let workspace = id.clone();
        let author = row.agent.as_deref().unwrap_or(&row.key).to_owned();
        let info = parked_info(author, &workspace);
        let parked = self.stores.with(tenant, move |workspaces| {
            match workspaces.park(&workspace, info, &NeverFreeze, &Progress::new()) {
                Ok(_) | Err(WorkspaceError::Parked(_)) => Ok(Some(workspaces.get(&workspace)?)),
                Err(WorkspaceError::NotFound(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        match parked.await? {
            Some(record) => self.workspaces.note_files(&row, &record).await.map(drop),
            None => Ok(()),
        }
    }
}
