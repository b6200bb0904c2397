//! Forks workspaces: creates workspaces with the current files of another.

use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::{Sandbox, Workspace, WorkspaceFiles, WorkspaceState};
use elevo_core::{KeyId, Timestamp, WorkspaceId};
use elevo_engine::Progress;

use crate::app::access::names::check_name;
use crate::app::access::principal::Principal;
use crate::app::requests::once::Once;
use crate::app::snapshots::own_info;
use crate::app::workspaces::Workspaces;
use crate::app::workspaces::parking::no_directory;
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Workspaces {
    /// Creates workspaces with the current files of another. A fork of a
    /// workspace of a project has the same project, base, agent and rights.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        who: &Principal,
        id: &WorkspaceId,
        wish: api::ForkWorkspace,
        once: Once,
    ) -> Result<api::WorkspacesForked> {
        let row = self.visible_to_write(who, id).await?;
        let count = wish.count.unwrap_or(1);
        if !(1..=50).contains(&count) {
            return Err(Failure::invalid("`count` must be 1 to 50"));
        }
        if let Some(name) = &wish.name {
            check_name(name)?;
        }
        let (app, who, tenant) = (self.clone(), who.clone(), row.tenant);
        // A separate task, so that the fork is completed even if the client
        // disconnects.
        let forking = async move {
            let ids = (1..=count).map(|number| {
                let name = wish.name.as_ref().map(|name| match count {
                    1 => name.clone(),
                    _ => format!("{name}-{number}"),
                });
                (once.id_of(number), name)
            });
            let ids = ids.collect();
            app.fork_once(&who, &row, ids, once.is_again()).await
        };
        let forking = self.stores.spawn(tenant, forking);
        forking.await.map_err(|error| Failure::internal(&error))?
    }

    async fn fork_once(
        &self,
        who: &Principal,
        of: &Workspace,
        ids: Vec<(WorkspaceId, Option<String>)>,
        is_again: bool,
    ) -> Result<api::WorkspacesForked> {
        if is_again && let Some(done) = self.forked_before(who, &ids).await? {
            return Ok(done);
        }
        let held = self.hold_workspace(of).await?;
        let row = self.visible(who, &of.id).await?;
        if row.state == WorkspaceState::Parked {
            return Err(no_directory(&row));
        }
        let now = clock::now();
        let forks: Vec<_> = ids
            .into_iter()
            .map(|(id, name)| fork_row(&row, id, &who.key, name, now))
            .collect();
        let mut added = Vec::new();
        let mut forked = Ok(());
        for fork in &forks {
            // The row is added before the directory exists, so that the cleanup
            // does not find a directory without a row.
            forked = self.add_fork(&row, fork).await;
            if forked.is_err() {
                break;
            }
            added.push(fork);
        }
        if forked.is_ok() {
            let frozen = match &held.sandbox {
                Some(sandbox) => self.freezer.frozen(sandbox),
                None => self.freezer.frozen_nothing(),
            };
            let info = own_info(who, format!("fork of {}", row.id));
            let into: Vec<_> = forks.iter().map(|fork| fork.id.clone()).collect();
            let (id, read_only) = (row.id.clone(), row.read_only);
            let forking = self.stores.with(row.tenant, move |workspaces| {
                let progress = Progress::new();
                match read_only {
                    true => workspaces
                        .fork_read_only(&id, &into, info, &frozen, &progress)
                        .map(drop)?,
                    false => workspaces
                        .fork(&id, &into, info, &frozen, &progress)
                        .map(drop)?,
                }
                Ok(())
            });
            forked = forking.await;
        }
        if let Err(failure) = forked {
            for fork in added {
                self.forget_workspace(fork).await?;
            }
            return Err(failure);
        }
        let mut done = api::WorkspacesForked::default();
        for fork in &forks {
            done.succeeded.push(self.out(fork).await?);
        }
        Ok(done)
    }

    /// Returns the forks of an earlier attempt of a request. Deletes the rows of
    /// an attempt that was interrupted before it created the directories, which
    /// are created all together or not at all.
    async fn forked_before(
        &self,
        who: &Principal,
        ids: &[(WorkspaceId, Option<String>)],
    ) -> Result<Option<api::WorkspacesForked>> {
        let mut done = api::WorkspacesForked::default();
        for (id, _) in ids {
            let Some(row) = self.catalog.workspace(who.tenant, id).await? else {
                continue;
            };
            match self.has_directory(&row).await? {
                true => done.succeeded.push(self.out(&row).await?),
                false => self.forget_workspace(&row).await?,
            }
        }
        Ok((!done.succeeded.is_empty()).then_some(done))
    }

    /// Adds rows for forks of the workspace of a sandbox. Does nothing for a
    /// workspace without a project.
    pub(crate) async fn add_forks(&self, from: &Sandbox, into: &[Sandbox]) -> Result<()> {
        let row = self.catalog.workspace(from.tenant, &from.workspace).await?;
        let Some(row) = row.filter(|row| row.project.is_some()) else {
            return Ok(());
        };
        for sandbox in into {
            let (id, name) = (sandbox.workspace.clone(), sandbox.name.clone());
            let fork = fork_row(&row, id, &sandbox.key, name, sandbox.created);
            self.add_named(&fork).await?;
            self.copy_unsettled(&row, &fork).await?;
        }
        Ok(())
    }

    async fn add_fork(&self, of: &Workspace, fork: &Workspace) -> Result<()> {
        self.catalog.add_workspace(fork).await?;
        self.copy_unsettled(of, fork).await
    }
}

/// Returns the row of a fork.
fn fork_row(
    of: &Workspace,
    id: WorkspaceId,
    key: &KeyId,
    name: Option<String>,
    created: Timestamp,
) -> Workspace {
    Workspace {
        id,
        key: key.clone(),
        name,
        merges: 0,
        generation: 1,
        files: WorkspaceFiles::default(),
        last_merge: None,
        expires: None,
        created,
        updated: created,
        ..of.clone()
    }
}
