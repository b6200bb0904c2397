//! Parks workspaces whose sandbox ends, and resumes them for a new sandbox.
//!
//! The row of a parked workspace protects it from the cleanup. It is written
//! before the row of the sandbox is deleted, so that one of the two rows exists
//! at any time.

use std::collections::BTreeMap;

use elevo_api as api;
use elevo_catalog::{Sandbox, Workspace, WorkspaceChange, WorkspaceFiles, WorkspaceState};
use elevo_core::{ErrorCode, KeyId, TenantId, Timestamp, WorkspaceId};
use elevo_engine::{CommitInfo, Progress};
use elevo_workspace::{Error as WorkspaceError, NeverFreeze, Record, State};
use tokio::sync::OwnedMutexGuard;

use crate::app::access::principal::Principal;
use crate::app::missing::no_workspace;
use crate::app::sandboxes::spec::Spec;
use crate::app::snapshots::own_label;
use crate::app::workspaces::Workspaces;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// The locks of a workspace and of its sandbox, held until this value is
/// dropped.
pub(crate) struct HeldWorkspace {
    /// The sandbox that uses the workspace.
    pub(crate) sandbox: Option<Sandbox>,
    _guards: [Option<OwnedMutexGuard<()>>; 2],
}

impl Workspaces {
    /// Locks a workspace and the sandbox that uses it.
    pub(crate) async fn hold_workspace(&self, row: &Workspace) -> Result<HeldWorkspace> {
        // Most workspaces have the id of their sandbox, and then one lock is
        // enough. All operations lock the workspace before the sandbox, so that
        // they cannot deadlock.
        let first = self.locks.hold(&row.id).await;
        let sandbox = || self.catalog.sandbox_of_workspace(row.tenant, &row.id);
        let mut found = sandbox().await?;
        let mut second = None;
        if let Some(other) = found.as_ref().filter(|sandbox| *sandbox.id != *row.id) {
            second = Some(self.locks.hold(&other.id).await);
            // The sandbox may have changed while this task waited.
            found = sandbox().await?;
        }
        Ok(HeldWorkspace {
            sandbox: found,
            _guards: [Some(first), second],
        })
    }

    /// Parks the workspace of a sandbox that is being deleted. After a crash,
    /// another call continues the work. On a full disk the files stay in their
    /// directory, and a job moves them into the store once there is free space.
    pub(crate) async fn park_workspace(&self, sandbox: &Sandbox) -> Result<()> {
        let expires = clock::after(self.time.now().await?, self.config.expired_keep);
        self.park_until(sandbox, Some(expires)).await
    }

    /// Like [`park_workspace`](Self::park_workspace), with another expiry.
    pub(crate) async fn park_until(
        &self,
        sandbox: &Sandbox,
        expires: Option<Timestamp>,
    ) -> Result<()> {
        let id = sandbox.workspace.clone();
        let author = sandbox.agent.as_deref().unwrap_or(&sandbox.key).to_owned();
        let info = parked_info(author, &id);
        let room = self.room.clone();
        let parked = self.stores.with(sandbox.tenant, move |workspaces| {
            let parked = match room.is_full() {
                true => Ok(()),
                false => workspaces
                    .park(&id, info, &NeverFreeze, &Progress::new())
                    .map(drop),
            };
            match parked {
                Ok(()) | Err(WorkspaceError::Parked(_)) => {}
                // There are no files to keep.
                Err(WorkspaceError::NotFound(_)) => return Ok(None),
                Err(error) => match Failure::from(error) {
                    full if full.code == ErrorCode::InsufficientStorage => {
                        tracing::warn!(
                            workspace = %id,
                            "the disk is full; a parked workspace keeps its directory for now"
                        );
                    }
                    failure => return Err(failure),
                },
            }
            match workspaces.get(&id) {
                Err(WorkspaceError::NotFound(_)) => Ok(None),
                found => Ok(Some(found?)),
            }
        });
        match parked.await? {
            Some(record) => self.note_parked(sandbox, &record, expires).await,
            None => Ok(()),
        }
    }

    /// Sets the state of the workspace of a sandbox to parked. A workspace
    /// without a project gets its row only now.
    async fn note_parked(
        &self,
        sandbox: &Sandbox,
        record: &Record,
        expires: Option<Timestamp>,
    ) -> Result<()> {
        let change = WorkspaceChange {
            state: Some(WorkspaceState::Parked),
            files: Some(files_of(record)),
            expires: Some(expires),
            ..WorkspaceChange::default()
        };
        let (tenant, id) = (sandbox.tenant, &sandbox.workspace);
        let changed = self
            .catalog
            .change_workspace(tenant, id, &change, clock::now());
        match changed.await {
            Ok(_) => Ok(()),
            // Another request is deleting the workspace.
            Err(elevo_catalog::Error::BeingRemoved { .. }) => Ok(()),
            Err(elevo_catalog::Error::NotFound { .. }) => {
                let row = Workspace {
                    agent: sandbox.agent.clone(),
                    name: sandbox.name.clone(),
                    created: sandbox.created,
                    expires,
                    ..self.parked_row(tenant, record, &sandbox.key)
                };
                Ok(self.add_named(&row).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Records where the files of a parked workspace are in the store.
    pub(crate) async fn note_files(&self, row: &Workspace, record: &Record) -> Result<Workspace> {
        let change = WorkspaceChange {
            generation: Some(row.generation),
            files: Some(files_of(record)),
            ..WorkspaceChange::default()
        };
        let changed = self
            .catalog
            .change_workspace(row.tenant, &row.id, &change, clock::now());
        Ok(changed.await?)
    }

    /// Returns a workspace without a sandbox that the principal may use in a new
    /// sandbox. Sets the disk limit in `spec` to that of the workspace.
    pub(crate) async fn existing(
        &self,
        who: &Principal,
        id: &WorkspaceId,
        wish: &api::CreateSandbox,
        spec: &mut Spec,
    ) -> Result<Workspace> {
        let row = self.visible(who, id).await?;
        if row.project.is_some() {
            who.needs(api::Scope::ProjectsWrite)?;
        }
        let sandbox = self.catalog.sandbox_of_workspace(row.tenant, &row.id);
        if sandbox.await?.is_some() {
            return Err(in_use(&row));
        }
        let workspace = row.id.clone();
        let record = self.stores.with(
            row.tenant,
            move |workspaces| Ok(workspaces.get(&workspace)?),
        );
        spec.keep_disk(
            wish,
            record.await?.limit,
            "the disk limit of an existing workspace cannot change; leave `disk` out",
        )?;
        Ok(row)
    }

    /// Sets the state of a workspace to live, for its new sandbox.
    pub(crate) async fn revive(&self, row: &Workspace) -> Result<()> {
        let change = WorkspaceChange {
            state: Some(WorkspaceState::Live),
            generation: Some(row.generation),
            files: Some(WorkspaceFiles::default()),
            expires: Some(None),
            ..WorkspaceChange::default()
        };
        let changed = self
            .catalog
            .change_workspace(row.tenant, &row.id, &change, clock::now());
        match changed.await {
            Ok(_) => Ok(()),
            // The workspace or its project is being deleted.
            Err(
                elevo_catalog::Error::Changed { .. } | elevo_catalog::Error::BeingRemoved { .. },
            ) => Err(no_workspace(&row.id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a row in the state `parked` for a workspace that has no row. A row
    /// that exists already is not an error.
    pub(crate) async fn add_parked(&self, tenant: TenantId, id: &WorkspaceId) -> Result<()> {
        let wanted = id.clone();
        let record = self
            .stores
            .with(tenant, move |workspaces| Ok(workspaces.get(&wanted)?));
        let record = record.await?;
        // The key that created the workspace is not known.
        let keys = self.catalog.keys(tenant).await?;
        let Some(key) = keys.first() else {
            let what = elevo_catalog::Kind::Owner;
            return Err(elevo_catalog::Error::NotFound { what }.into());
        };
        let row = Workspace {
            created: record.created,
            expires: Some(clock::after(
                self.time.now().await?,
                self.config.expired_keep,
            )),
            ..self.parked_row(tenant, &record, &key.id)
        };
        match self.catalog.add_workspace(&row).await {
            Err(elevo_catalog::Error::Exists { .. }) => Ok(()),
            added => Ok(added?),
        }
    }

    /// Returns the row of a parked workspace without a project.
    fn parked_row(&self, tenant: TenantId, record: &Record, key: &KeyId) -> Workspace {
        let now = clock::now();
        Workspace {
            id: record.id.clone(),
            tenant,
            project: None,
            agent: None,
            key: key.clone(),
            name: None,
            base: record.base,
            synced: record.base,
            merges: 0,
            sync: serde_json::json!({}),
            read_only: false,
            follows: false,
            state: WorkspaceState::Parked,
            node: self.node,
            generation: 1,
            files: files_of(record),
            last_merge: None,
            expires: None,
            created: now,
            updated: now,
        }
    }
}

/// Returns the files of a workspace in the store. On a full disk, a parked
/// workspace still has its directory, and then there are none.
fn files_of(record: &Record) -> WorkspaceFiles {
    match record.state {
        State::Live => WorkspaceFiles::default(),
        State::Parked => WorkspaceFiles {
            origin: Some(record.origin),
            base: Some(record.base),
            home: record.home,
            limit: record.limit,
        },
    }
}

/// Returns the metadata of the snapshot of a parked workspace.
pub(crate) fn parked_info(author: String, id: &WorkspaceId) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author,
        message: format!("parked {id}"),
        created: clock::now(),
        labels: BTreeMap::from([own_label()]),
        reference: None,
    }
}

/// Returns the failure of a request for a second sandbox with a workspace.
pub(crate) fn in_use(row: &Workspace) -> Failure {
    let message = format!("another sandbox uses workspace `{}`", row.id);
    Failure::new(ErrorCode::WorkspaceInUse, message)
        .about("workspace", row.id.as_str())
        .remediation("Fork the workspace, or delete its sandbox with `keep_workspace=true` first.")
}

/// Returns the failure of a request for the files of a parked workspace.
pub(crate) fn no_directory(row: &Workspace) -> Failure {
    let message = format!("workspace `{}` is parked, so it has no directory", row.id);
    Failure::new(ErrorCode::WorkspaceParked, message).about("workspace", row.id.as_str())
}
