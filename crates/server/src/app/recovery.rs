//! Bringing rows, containers and workspaces in line: at the start of the server,
//! when something ends that nobody has asked to end, and on request.
//!
//! ```text
//! row         container     then
//! removing    any           the removal goes on
//! starting    any           taken back: nobody has its id
//!   (again)   any           error, its workspace whole
//! running     running       waits for its agent, goes on
//! running     not running   stopped
//! running     none          error
//! stopping    any           stopped
//! stopped     running       stopped, again
//! none        any           the container is removed, with its slot
//! none        –             its workspace is removed, unless it was kept
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::{
    EventKind, ProjectQuery, Sandbox, SandboxChange, SandboxQuery, WorkspaceQuery, WorkspaceState,
};
use elevo_core::{SandboxState, TenantId};
use elevo_sandbox::{Container, ContainerState};

use crate::app::App;
use crate::audit::Entry;
use crate::clock;
use crate::failure::Result;

impl App {
    /// Brings everything in line after a start.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<()> {
        self.catalog.abandon_all_running().await?;
        let containers = self.runtime.list().await?;
        let containers: HashMap<_, _> = containers
            .into_iter()
            .map(|container| (container.sandbox.clone(), container))
            .collect();
        for sandbox in self.all_sandboxes().await? {
            let container = containers.get(&sandbox.id);
            if let Err(failure) = self.recover_one(&sandbox, container).await {
                let cause = failure.summary();
                tracing::error!(sandbox = sandbox.id, cause, "not brought in line");
            }
        }
        let cleared = self.clear_away().await?;
        tracing::info!(
            sandboxes = cleared.cleaned_sandboxes,
            workspaces = cleared.cleaned_workspaces,
            "recovered"
        );
        Ok(())
    }

    async fn all_sandboxes(&self) -> Result<Vec<Sandbox>> {
        let mut query = SandboxQuery::default();
        let mut all = Vec::new();
        loop {
            let page = self.catalog.sandboxes(&query).await?;
            query.after = page.items.last().map(Sandbox::position);
            let is_last = page.items.is_empty();
            all.extend(page.items);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn recover_one(&self, sandbox: &Sandbox, container: Option<&Container>) -> Result<()> {
        use SandboxState::{Error, Running, Starting, Stopped, Stopping};
        if sandbox.removing {
            return self.remove(sandbox).await;
        }
        let runs = container.is_some_and(|container| {
            container.state != ContainerState::Exited && container.state != ContainerState::Created
        });
        let id = &sandbox.id;
        match sandbox.state {
            // Its maker was told of it only once it ran.
            Starting if sandbox.reason.is_none() => self.give_up(id).await,
            Starting => {
                let reason = Some("the server ended while it was starting".into());
                self.change(id, &[Starting], Error, reason).await?;
            }
            Running if runs => {
                self.thaw(container).await;
                self.show_again(sandbox).await?;
            }
            Running if container.is_some() => {
                let reason = Some("its container ended while the server was away".into());
                self.change(id, &[Running], Stopped, reason).await?;
            }
            Running => {
                let reason = Some("its container is gone; `start` makes a new one".into());
                self.change(id, &[Running], Error, reason).await?;
            }
            Stopping | Stopped => {
                if let Some(container) = container.filter(|_| runs) {
                    self.runtime.kill(&container.id).await?;
                }
                if sandbox.state == Stopping {
                    self.change(id, &[Stopping], Stopped, None).await?;
                }
            }
            Error => {}
        }
        Ok(())
    }

    /// A server that was killed while it gave a container its workspace may not
    /// have come to show it.
    async fn show_again(&self, sandbox: &Sandbox) -> Result<()> {
        let id = super::parts::workspace_id(&sandbox.workspace)?;
        let shown = self.homes.with(sandbox.tenant, move |workspaces| {
            if workspaces.shares(&id)? {
                let binding = workspaces.bind(&id)?;
                workspaces.show(binding)?;
            }
            Ok(())
        });
        shown.await
    }

    /// A server that was killed during a snapshot may have left it frozen.
    async fn thaw(&self, container: Option<&Container>) {
        if let Some(container) = container
            && container.state == ContainerState::Frozen
            && let Err(error) = self.runtime.thaw(&container.id).await
        {
            let cause = crate::failure::chain(&error);
            tracing::error!(sandbox = container.sandbox, cause, "not thawed");
        }
    }

    /// What to do when an agent is gone: if its container is, too, the row must
    /// say so.
    pub(crate) async fn look_after(&self, id: &str) -> Result<()> {
        let _held = self.hold(id).await;
        let Some(sandbox) = self.catalog.sandbox_of_any_tenant(id).await? else {
            return Ok(());
        };
        if sandbox.state != SandboxState::Running
            || sandbox.removing
            || self.links.get(id).is_some()
        {
            return Ok(());
        }
        let Some(container) = super::sandboxes::container_of(&sandbox) else {
            return Ok(());
        };
        let status = self.runtime.status(&container).await?;
        let running = [SandboxState::Running];
        match status {
            None => {
                let reason = Some("its container is gone; `start` makes a new one".into());
                self.change(id, &running, SandboxState::Error, reason)
                    .await?;
            }
            Some(status) if status.state == ContainerState::Exited => {
                let why = match status.oom_killed {
                    true => "it used more memory than it may",
                    false => "its container ended",
                };
                self.change(id, &running, SandboxState::Stopped, Some(why.into()))
                    .await?;
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Looks after every sandbox that should run and has no agent.
    pub(crate) async fn look_after_all(&self) -> Result<()> {
        for sandbox in self.all_sandboxes().await? {
            if sandbox.state == SandboxState::Running && self.links.get(&sandbox.id).is_none() {
                self.look_after(&sandbox.id).await?;
            }
        }
        Ok(())
    }

    /// Removes sandboxes whose time is over.
    pub(crate) async fn remove_expired(self: &Arc<Self>) -> Result<u64> {
        let mut removed = 0;
        for sandbox in self.catalog.expired(clock::now(), 100).await? {
            // One that is being started is let go first.
            let from = SandboxState::ALL.into_iter();
            let from = from.filter(|state| *state != SandboxState::Starting);
            let mark = SandboxChange {
                from: Some(from.collect()),
                removing: Some(true),
                tells: vec![EventKind::SandboxExpired],
                ..SandboxChange::default()
            };
            // It may have been extended or removed by now.
            let marked = self
                .catalog
                .change_sandbox(&sandbox.id, &mark, clock::now())
                .await;
            if let Ok(marked) = marked {
                tracing::info!(sandbox = sandbox.id, "sandbox expired");
                self.audit_own("sandbox.expired", &sandbox).await;
                self.remove(&marked).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Writes down what the server does to a sandbox by itself.
    pub(crate) async fn audit_own(&self, event: &'static str, sandbox: &Sandbox) {
        let entry = Entry {
            event,
            about: vec![
                ("sandbox_id", sandbox.id.as_str().into()),
                ("tenant", sandbox.tenant.to_string().into()),
            ],
            ..Entry::default()
        };
        self.audit.tell(entry).await;
    }

    /// Removes containers and workspaces that no row has, and finishes removals
    /// that were cut off.
    pub(crate) async fn clear_away(&self) -> Result<api::GcResult> {
        let mut cleared = api::GcResult::default();
        self.clear_projects().await?;
        // First what is there, then the rows, then what is warm: what is made
        // meanwhile has its row, or is known to be warm, before anything else.
        let containers = self.runtime.list().await?;
        let workspaces = self.all_workspaces().await?;
        let rows = self.all_sandboxes().await?;
        let known: HashSet<_> = rows.iter().map(|row| row.id.as_str()).collect();
        let warm = self.pool.ids();
        let unknown = containers.into_iter().map(|container| container.sandbox);
        let unknown: Vec<_> = unknown
            .filter(|name| !known.contains(name.as_str()) && !warm.contains(name))
            .collect();
        cleared.cleaned_sandboxes += unknown.len() as u64;
        self.discard_all(unknown).await?;
        self.clear_slots(&known).await?;
        for row in rows.iter().filter(|row| row.removing) {
            self.remove(row).await?;
        }
        let used: HashSet<_> = rows
            .iter()
            .map(|row| (row.tenant, row.workspace.as_str()))
            .collect();
        for (tenant, id) in workspaces {
            let name = id.as_str();
            let is_ours = ["sbx-", "ws-"].iter().any(|form| clock::is_id(form, name))
                && !used.contains(&(tenant, name));
            if is_ours && !self.is_wanted(tenant, name).await? {
                self.remove_workspace(tenant, id).await?;
                cleared.cleaned_workspaces += 1;
            }
        }
        Ok(cleared)
    }

    /// Whether a workspace without a sandbox is to stay.
    async fn is_wanted(&self, tenant: TenantId, id: &str) -> Result<bool> {
        if let Some(row) = self.catalog.workspace(tenant, id).await? {
            return Ok(row.state != WorkspaceState::Removing);
        }
        Ok(self.catalog.setting(&kept_name(id)).await?.is_some())
    }

    /// Finishes removals of projects and workspaces that were cut off.
    async fn clear_projects(&self) -> Result<()> {
        let query = ProjectQuery {
            removing: Some(true),
            ..ProjectQuery::default()
        };
        for project in self.catalog.projects(&query).await?.items {
            self.finish_removal(project.tenant, &project.id).await?;
        }
        let query = WorkspaceQuery {
            state: Some(WorkspaceState::Removing),
            ..WorkspaceQuery::default()
        };
        for row in self.catalog.workspaces(&query).await?.items {
            self.forget_workspace(&row).await?;
        }
        Ok(())
    }

    /// Takes networks and rules away if there is no sandbox to need them again:
    /// a server that is gone for good leaves nothing on its machine.
    pub(crate) async fn leave_engine(&self) -> Result<()> {
        self.drain_pools().await?;
        let query = SandboxQuery {
            limit: 1,
            ..SandboxQuery::default()
        };
        if !self.catalog.sandboxes(&query).await?.items.is_empty() {
            return Ok(());
        }
        match self.runtime.tear_down().await {
            // Another's network, no tools for rules: then none of it is ours.
            Err(elevo_sandbox::Error::Refused { .. }) => Ok(()),
            left => Ok(left?),
        }
    }

    /// Removes layers that no workspace needs, if there is much of them.
    pub(crate) async fn tidy_layers(&self) -> Result<()> {
        for tenant in self.homes.known() {
            let tidied = self.homes.with(tenant, |workspaces| Ok(workspaces.tidy()?));
            tidied.await?;
        }
        Ok(())
    }

    async fn all_workspaces(
        &self,
    ) -> Result<Vec<(elevo_core::TenantId, elevo_workspace::WorkspaceId)>> {
        let mut all = Vec::new();
        for tenant in self.homes.known() {
            let records = self
                .homes
                .with(tenant, |workspaces| Ok(workspaces.list()?))
                .await?;
            all.extend(records.into_iter().map(|record| (tenant, record.id)));
        }
        Ok(all)
    }
}

/// The setting that says that a workspace outlives its sandbox.
pub(crate) fn kept_name(workspace: &str) -> String {
    format!("kept-workspace:{workspace}")
}
