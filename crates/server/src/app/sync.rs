//! Automatic sync: refreshes workspaces to the head of their project and merges
//! their changes, without requests.
//!
//! The rows in the catalog say which workspaces are synced and how often. The
//! times of the last checks are only in memory.

pub(crate) mod refusals;

use elevo_core::{ProjectId, WorkspaceId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{KeyLimits, NodeId, Workspace, WorkspaceQuery, WorkspaceState};
use elevo_engine::Progress;

use crate::app::access::principal::{AskedFor, Principal};
use crate::app::access::principals::check_valid;
use crate::app::access::tenants::Tenants;
use crate::app::projects::Projects;
use crate::app::projects::merges::Merges;
use crate::app::resources::Resources;
use crate::app::sync::refusals::{Attempts, Inputs};
use crate::app::tenant_stores::{self, TenantStores};
use crate::app::workspaces::Workspaces;
use crate::app::workspaces::refresh::OnConflict;
use crate::failure::Result;
use crate::platform::clock;
use crate::platform::room::Room;

/// Default seconds between two syncs in the mode `lazy`.
const LAZY: u32 = 45;
/// Default seconds between two syncs in the mode `regular`.
const REGULAR: u32 = 7;

/// Interval between two checks for changed files in the mode `event`. The moves
/// of the head come as notifications.
const WRITTEN: Duration = Duration::from_secs(2);

/// The last check of each workspace with automatic sync, by id.
#[derive(Debug, Default)]
pub(crate) struct Looks(HashMap<WorkspaceId, Look>);

/// The last check of a workspace, and its result.
#[derive(Debug)]
struct Look {
    at: Instant,
    attempts: Attempts,
    /// True while the agent of the workspace has no valid key.
    paused: bool,
}

impl Look {
    fn new(at: Instant) -> Self {
        Self {
            at,
            attempts: Attempts::default(),
            paused: false,
        }
    }
}

/// Refreshes and merges the workspaces with automatic sync.
pub(crate) struct Syncing {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    room: Arc<Room>,
    stores: Arc<TenantStores>,
    merges: Arc<Merges>,
    projects: Arc<Projects>,
    tenants: Arc<Tenants>,
    workspaces: Arc<Workspaces>,
}

impl Syncing {
    pub(crate) fn new(
        resources: &Resources,
        merges: &Arc<Merges>,
        projects: &Arc<Projects>,
        tenants: &Arc<Tenants>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            merges: merges.clone(),
            projects: projects.clone(),
            room: resources.room.clone(),
            stores: resources.stores.clone(),
            tenants: tenants.clone(),
            workspaces: workspaces.clone(),
        }
    }

    /// Refreshes and merges the workspaces that are due.
    pub(crate) async fn run(self: &Arc<Self>, looks: &mut Looks) -> Result<()> {
        // A refresh or merge would fail for lack of disk space.
        if self.room.is_full() {
            return Ok(());
        }
        let rows = self.synchronised(None).await?;
        looks.0.retain(|id, _| rows.iter().any(|row| row.id == *id));
        let now = clock::instant();
        for row in rows {
            let sync = sync_of(&row);
            let seconds = |default| Duration::from_secs(sync.seconds.unwrap_or(default).into());
            let period = match sync.mode {
                api::SyncMode::Manual => continue,
                api::SyncMode::Lazy => seconds(LAZY),
                api::SyncMode::Regular => seconds(REGULAR),
                api::SyncMode::Event => WRITTEN,
            };
            let look = looks.0.entry(row.id.clone());
            let look = look.or_insert_with(|| Look::new(now));
            if now.duration_since(look.at) < period {
                continue;
            }
            look.at = now;
            let Ok(has_key) = self.has_valid_key(&row).await else {
                continue;
            };
            if look.paused == has_key {
                look.paused = !has_key;
                let what = match has_key {
                    true => "continues, because its agent has a valid key",
                    false => {
                        "pauses: all keys of its agent are revoked or expired, or its tenant is \
                         suspended"
                    }
                };
                tracing::info!(workspace = %row.id, "the sync of a workspace {what}");
            }
            if look.paused || !self.tenants.may_store(row.tenant).await.unwrap_or(true) {
                continue;
            }
            let synchronising = self.one(&row, sync.mode, &mut look.attempts);
            self.stores.shares.apart(row.tenant, synchronising).await;
        }
        Ok(())
    }

    /// Refreshes the workspaces of a project whose sync has the mode `event`.
    pub(crate) async fn head_has_moved(self: &Arc<Self>, project: &ProjectId) -> Result<()> {
        if self.room.is_full() {
            return Ok(());
        }
        for row in self.synchronised(Some(project)).await? {
            if sync_of(&row).mode == api::SyncMode::Event && self.has_valid_key(&row).await? {
                self.refresh_quietly(&row).await;
            }
        }
        Ok(())
    }

    /// Returns true if the agent of a workspace has a valid key. The key that
    /// created the workspace may be revoked and replaced by another key of the
    /// same agent.
    async fn has_valid_key(&self, row: &Workspace) -> Result<bool> {
        if self.tenants.known(row.tenant).await?.is_suspended {
            return Ok(false);
        }
        let own = self.catalog.key(row.tenant, &row.key).await?;
        if own.is_some_and(|key| check_valid(&key).is_ok()) {
            return Ok(true);
        }
        let keys = self.catalog.keys(row.tenant).await?;
        let mut keys = keys.iter().filter(|key| key.agent == row.agent);
        Ok(keys.any(|key| check_valid(key).is_ok()))
    }

    /// Syncs one workspace: merges its changes, except in the mode `lazy`, and
    /// refreshes it.
    async fn one(self: &Arc<Self>, row: &Workspace, mode: api::SyncMode, attempts: &mut Attempts) {
        let merges = mode != api::SyncMode::Lazy && !row.read_only;
        if merges && let Err(failure) = self.merge_quietly(row, attempts).await {
            told(row, "the automatic merge of a workspace failed", &failure);
        }
        self.refresh_quietly(row).await;
    }

    /// Merges the changes of a workspace, unless the last attempt had the same
    /// inputs and so would have the same result.
    async fn merge_quietly(
        self: &Arc<Self>,
        row: &Workspace,
        attempts: &mut Attempts,
    ) -> Result<()> {
        if let Some(inputs) = self.unmerged(row).await?
            && !attempts.is_known(&inputs)
        {
            let wish = api::Merge {
                message: "merged automatically".into(),
                ..api::Merge::default()
            };
            let merged = self
                .merges
                .merge_row(&self.itself(row)?, row, &wish, None, false)
                .await?;
            self.note_attempt(row, attempts, &merged).await?;
        }
        Ok(())
    }

    /// Refreshes a workspace if the head of its project has moved. Logs a
    /// failure.
    async fn refresh_quietly(self: &Arc<Self>, row: &Workspace) {
        let is_current = match self.projects.of_workspace(row).await {
            Ok(project) => project.head == row.synced,
            Err(_) => return,
        };
        if is_current {
            return;
        }
        let Ok(who) = self.itself(row) else {
            return;
        };
        let wish = api::Refresh::default();
        // Conflicting files keep the content of the workspace: the agent did not
        // ask for a refresh, and conflict markers would break its programs.
        let refreshed = self
            .workspaces
            .refresh(&who, &row.id, wish, OnConflict::Keep);
        if let Err(failure) = refreshed.await {
            told(row, "the automatic refresh of a workspace failed", &failure);
        }
    }

    /// Returns the inputs of the next merge; `None` if the workspace has no
    /// unmerged changes.
    async fn unmerged(&self, row: &Workspace) -> Result<Option<Inputs>> {
        let id = row.id.clone();
        let base = self
            .stores
            .repository(row.tenant)
            .snapshot(row.base)
            .await?;
        let files = self.stores.with(row.tenant, move |workspaces| {
            Ok(workspaces.changes(&id, &Progress::new())?.tree)
        });
        let files = files.await?;
        match files == base.tree {
            true => Ok(None),
            false => self.inputs(row, files).await.map(Some),
        }
    }

    /// Returns the live workspaces of this node with automatic sync, of one project
    /// or of all.
    async fn synchronised(&self, project: Option<&ProjectId>) -> Result<Vec<Workspace>> {
        let mut query = WorkspaceQuery {
            project: project.cloned(),
            state: Some(WorkspaceState::Live),
            node: Some(self.node),
            ..WorkspaceQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.catalog.workspaces(&query).await?;
            query.after = page.items.last().map(Workspace::position);
            let is_last = page.items.len() < query.limit as usize;
            let wanted = page
                .items
                .into_iter()
                .filter(|row| row.project.is_some() && sync_of(row).mode != api::SyncMode::Manual);
            found.extend(wanted);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Returns a principal for the automatic sync of a workspace, with the rights
    /// of its agent. Fails if the tenant is being erased.
    fn itself(&self, row: &Workspace) -> Result<Principal> {
        // The presence must exist before the tenant is checked. An erasure
        // first marks the tenant and then checks for presences, so one of the
        // two sees the other.
        let presence = self.tenants.enter(row.tenant);
        if self.stores.is_closed(row.tenant) {
            return Err(tenant_stores::being_erased());
        }
        Ok(Principal {
            tenant: row.tenant,
            agent: row.agent.clone(),
            key: row.key.clone(),
            key_name: String::new(),
            scopes: vec![Scope::ProjectsRead, Scope::ProjectsWrite],
            limits: KeyLimits::default(),
            tenant_limits: Arc::default(),
            asked: AskedFor::default(),
            _presence: presence,
        })
    }
}

fn sync_of(row: &Workspace) -> api::Sync {
    serde_json::from_value(row.sync.clone()).unwrap_or_default()
}

fn told(row: &Workspace, what: &str, failure: &crate::failure::Failure) {
    tracing::warn!(workspace = %row.id, cause = failure.summary(), "{what}");
}
