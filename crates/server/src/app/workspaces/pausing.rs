//! Parks and resumes workspaces that no sandbox uses, on request.
//!
//! ```text
//! park:    row `parked` ─► files into the store, directory deleted
//! resume:  directory created ─► row `live`
//! ```
//!
//! In both orders, an interruption leaves a parked row with a directory, as
//! parking on a full disk does. The job that then moves the files into the store
//! completes an interrupted park, and undoes an interrupted resume.

use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::{Workspace, WorkspaceChange, WorkspaceFiles, WorkspaceState};
use elevo_core::WorkspaceId;
use elevo_engine::Progress;
use elevo_workspace::{Error as WorkspaceError, NeverFreeze};

use crate::app::access::principal::Principal;
use crate::app::missing::no_workspace;
use crate::app::workspaces::Workspaces;
use crate::app::workspaces::parking::parked_info;
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Workspaces {
    /// Moves the files of a workspace into the store and deletes its directory.
    /// The workspace does not expire. A parked workspace stays as it is.
    pub(crate) async fn park(
        self: &Arc<Self>,
        who: &Principal,
        id: &WorkspaceId,
    ) -> Result<api::Workspace> {
        let row = self.visible_to_write(who, id).await?;
        let (app, who, tenant) = (self.clone(), who.clone(), row.tenant);
        // A separate task, so that the work is completed even if the client
        // disconnects.
        let parking = async move { app.park_row(&who, &row).await };
        let parking = self.stores.spawn(tenant, parking);
        parking.await.map_err(|error| Failure::internal(&error))?
    }

    async fn park_row(&self, who: &Principal, row: &Workspace) -> Result<api::Workspace> {
        let _held = self.hold_workspace(row).await?;
        self.not_in_a_sandbox(row).await?;
        let row = self.visible(who, &row.id).await?;
        if row.state == WorkspaceState::Parked {
            return self.out(&row).await;
        }
        let parked = self.set_state(&row, WorkspaceState::Parked).await?;
        let id = row.id.clone();
        let author = row.agent.as_deref().unwrap_or(&row.key).to_owned();
        let info = parked_info(author, &id);
        let stored = self.stores.with(row.tenant, move |workspaces| {
            match workspaces.park(&id, info, &NeverFreeze, &Progress::new()) {
                Ok(_) | Err(WorkspaceError::Parked(_)) => Ok(workspaces.get(&id)?),
                Err(error) => Err(error.into()),
            }
        });
        match stored.await {
            Ok(record) => {
                let parked = self.note_files(&parked, &record).await?;
                self.out(&parked).await
            }
            Err(failure) => {
                self.set_state(&parked, WorkspaceState::Live).await?;
                Err(failure)
            }
        }
    }

    /// Creates the directory of a parked workspace again. A workspace that has
    /// its directory stays as it is.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        who: &Principal,
        id: &WorkspaceId,
    ) -> Result<api::Workspace> {
        let row = self.visible_to_write(who, id).await?;
        let (app, who, tenant) = (self.clone(), who.clone(), row.tenant);
        let resuming = async move { app.resume_row(&who, &row).await };
        let resuming = self.stores.spawn(tenant, resuming);
        resuming.await.map_err(|error| Failure::internal(&error))?
    }

    async fn resume_row(&self, who: &Principal, row: &Workspace) -> Result<api::Workspace> {
        let _held = self.hold_workspace(row).await?;
        self.not_in_a_sandbox(row).await?;
        let row = self.visible(who, &row.id).await?;
        if row.state != WorkspaceState::Parked {
            return self.out(&row).await;
        }
        let id = row.id.clone();
        let made = self.stores.with(row.tenant, move |workspaces| {
            match workspaces.resume_for_owner(&id, &Progress::new()) {
                // The disk was full when the workspace was parked, so its files
                // are still in their directory.
                Ok(_) | Err(WorkspaceError::NotParked(_)) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        made.await?;
        let live = self.set_state(&row, WorkspaceState::Live).await?;
        self.out(&live).await
    }

    /// Changes the state of a workspace without an expiry.
    async fn set_state(&self, row: &Workspace, state: WorkspaceState) -> Result<Workspace> {
        let change = WorkspaceChange {
            from: Some(row.state),
            generation: Some(row.generation),
            files: Some(WorkspaceFiles::default()),
            state: Some(state),
            expires: Some(None),
            ..WorkspaceChange::default()
        };
        let changed = self
            .catalog
            .change_workspace(row.tenant, &row.id, &change, clock::now());
        changed.await.map_err(|error| match error {
            // The workspace or its project is being deleted.
            elevo_catalog::Error::Changed { .. }
            | elevo_catalog::Error::BeingRemoved { .. }
            | elevo_catalog::Error::NotFound { .. } => no_workspace(&row.id),
            error => error.into(),
        })
    }
}
