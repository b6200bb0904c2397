//! Starts sandboxes: creates the workspace and the container, starts the
//! container, and waits for its agent. The submodules start stopped sandboxes,
//! roll back starts, and delete sandboxes.

mod abandoned;
mod again;
mod remove;

use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::AgentLinks;
use elevo_catalog::Catalog;
use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{EventKind, NodeId, Sandbox, SandboxChange, Workspace};
use elevo_core::{ErrorCode, SandboxId, SandboxState};
use elevo_engine::Progress;
use elevo_sandbox::ContainerId;
use elevo_sandbox::SandboxRuntime;
use tracing::Instrument;

use crate::app::access::principal::Principal;
use crate::app::resources::Resources;
use crate::app::sandboxes::containers::{Containers, Places};
use crate::app::sandboxes::freezer::Freezer;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::sandboxes::makers::{Makers, Making};
use crate::app::sandboxes::new_sandbox::NewSandbox;
use crate::app::sandboxes::reasons::Reason;
use crate::app::sandboxes::spec::Spec;
use crate::app::snapshots::{Kept, own_info};
use crate::app::tenant_stores::TenantStores;
use crate::app::workspaces::Workspaces;
use crate::app::workspaces::create::NewWorkspace;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::clock;
use crate::platform::engine_sight::EngineSight;
use crate::platform::trace::step;

/// The source of the files of a sandbox.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Empty,
    Snapshot(Kept),
    /// A new workspace of a project. Its row is added with the sandbox.
    Project(Box<NewWorkspace>),
    /// A copy of the workspace of another sandbox, for this principal.
    Fork(Box<(Principal, Sandbox)>),
    /// A parked workspace, or one with a directory but without a sandbox.
    Existing(Box<Workspace>),
    /// The workspace of the sandbox, which exists already.
    Made,
}

/// Starts sandboxes, rolls back failed starts, and deletes sandboxes. Holds the
/// set of sandboxes that this process is starting.
pub(crate) struct Starts {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    config: Arc<Config>,
    freezer: Arc<Freezer>,
    links: AgentLinks,
    locks: Arc<SandboxLocks>,
    runtime: Arc<dyn SandboxRuntime>,
    sight: Arc<EngineSight>,
    stores: Arc<TenantStores>,
    containers: Arc<Containers>,
    workspaces: Arc<Workspaces>,
    makers: Arc<Makers>,
}

impl Starts {
    pub(crate) fn new(
        resources: &Resources,
        containers: &Arc<Containers>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            config: resources.config.clone(),
            containers: containers.clone(),
            freezer: resources.freezer.clone(),
            links: resources.links.clone(),
            locks: resources.locks.clone(),
            runtime: resources.runtime.clone(),
            sight: resources.sight.clone(),
            stores: resources.stores.clone(),
            workspaces: workspaces.clone(),
            makers: Arc::default(),
        }
    }

    /// Marks a sandbox as being started until the result is dropped. Must be
    /// called before its row gets the state `starting`.
    pub(crate) fn enter(&self, id: &SandboxId) -> Making {
        self.makers.enter(id)
    }

    /// Creates the workspace and the container of a new row, and starts the
    /// sandbox. If that fails, deletes the row, the workspace and the container.
    pub(crate) async fn create_new(
        &self,
        new: NewSandbox,
        spec: Spec,
        source: Source,
    ) -> Result<Sandbox> {
        let started = clock::instant();
        // An existing workspace has its own lock, because a request or a job may
        // be moving its files into the store. All operations lock the workspace before the
        // sandbox, so that they cannot deadlock.
        let existing = match &source {
            Source::Existing(row) => Some(self.locks.hold(&row.id).await),
            _ => None,
        };
        let held = self.locks.hold(&new.row.id).await;
        let made = self.make_held(&new, &spec, source).await;
        // The locks are released first, because `give_up` acquires the lock of
        // the sandbox.
        drop((held, existing));
        match made {
            Ok(sandbox) => {
                crate::platform::metrics::created(started.elapsed());
                Ok(sandbox)
            }
            Err(failure) => {
                crate::platform::metrics::creation_failed();
                tracing::warn!(
                    sandbox = %new.row.id,
                    cause = failure.summary(),
                    "cannot create a sandbox, so it is rolled back"
                );
                self.give_up(&new.row).await;
                Err(failure)
            }
        }
    }

    /// Creates and starts a sandbox whose locks the caller holds: in a warm
    /// container if there is one, else in a new container.
    async fn make_held(&self, new: &NewSandbox, spec: &Spec, source: Source) -> Result<Sandbox> {
        let sandbox = &new.row;
        // The fork waits for the lock of its origin. The task that holds this
        // lock may be waiting for a permit to create containers, so the fork
        // must not hold such a permit.
        if let Source::Fork(origin) = &source {
            let (who, origin) = &**origin;
            self.fork_workspace(who, origin, std::slice::from_ref(sandbox))
                .await?;
        }
        if let Source::Project(new) = &source {
            self.workspaces.add_named(&new.row).await?;
        }
        if let Source::Existing(row) = &source {
            self.workspaces.revive(row).await?;
        }
        if new.warm.is_none() {
            return self.make_cold(new, spec, source).await;
        }
        let places = self
            .make_workspace(sandbox, spec, source)
            .instrument(step!("workspace.make"))
            .await?;
        let using = self.use_warm(&sandbox.id, &places);
        if let Err(failure) = using.instrument(step!("container.take")).await {
            let cause = failure.summary();
            tracing::warn!(
                sandbox = %sandbox.id,
                cause,
                "cannot use a warm container, so a new one is created"
            );
            // The warm container is deleted because the new container gets the
            // same name. The workspace exists already, hence `Source::Made`.
            self.containers.remove_container(&sandbox.id).await?;
            return self.make_cold(new, spec, Source::Made).await;
        }
        // The agent connected before the sandbox had a row, so its event is
        // recorded now.
        self.runs_now(sandbox, &[EventKind::AgentConnected]).await
    }

    /// Sets the state of a sandbox to running. Records the events in `before`,
    /// then `SandboxRunning` and, for a first start, `SandboxCreated`.
    async fn runs_now(&self, sandbox: &Sandbox, before: &[EventKind]) -> Result<Sandbox> {
        let mut tells = before.to_vec();
        tells.push(EventKind::SandboxRunning);
        if !sandbox.started_before {
            tells.push(EventKind::SandboxCreated);
        }
        let change = SandboxChange {
            from: Some(vec![SandboxState::Starting]),
            to: Some(SandboxState::Running),
            generation: Some(sandbox.generation),
            reason: Some(None),
            started_before: Some(true),
            tells,
            ..SandboxChange::default()
        };
        self.change_as(sandbox, &change).await
    }

    /// Mounts a workspace into a warm container, which is running already.
    async fn use_warm(&self, id: &SandboxId, places: &Places) -> Result<()> {
        if places.read_only {
            let message = "a read-only workspace cannot be mounted into a running container";
            return Err(Failure::new(ErrorCode::SandboxStartFailed, message));
        }
        if places
            .owner
            .is_some_and(|owner| owner != self.containers.sandbox_user())
        {
            let message = "the files of the workspace belong to another user than the processes \
                           of the running container";
            return Err(Failure::new(ErrorCode::SandboxStartFailed, message));
        }
        self.containers.fill_slot(id, places).await?;
        // The agent may have disconnected after the container was taken from its
        // pool.
        match self.links.get(id) {
            Some(_) => Ok(()),
            None => {
                let message = "the workspace agent of the warm container is no longer connected";
                Err(Failure::new(ErrorCode::AgentUnreachable, message))
            }
        }
    }

    /// Creates and starts a sandbox with a new container.
    async fn make_cold(&self, new: &NewSandbox, spec: &Spec, source: Source) -> Result<Sandbox> {
        let sandbox = &new.row;
        let _turn = self
            .containers
            .turn_to_create()
            .instrument(step!("turn.wait"))
            .await?;
        let places = self
            .make_workspace(sandbox, spec, source)
            .instrument(step!("workspace.make"))
            .await?;
        self.make_container(sandbox, spec, &places, &new.token)
            .instrument(step!("container.make"))
            .await?;
        self.start_container(sandbox, places)
            .instrument(step!("container.start"))
            .await
    }

    /// Creates, resumes or finds the workspace of a sandbox, depending on the
    /// source. Returns its directories.
    async fn make_workspace(&self, row: &Sandbox, spec: &Spec, source: Source) -> Result<Places> {
        let id = row.workspace.clone();
        let (created, limit) = (row.created, spec.disk);
        let sight = self.sight.clone();
        let made = self.stores.with(row.tenant, move |workspaces| {
            let progress = Progress::new();
            let files = match source {
                Source::Empty => workspaces.create_empty(&id, created, limit)?,
                Source::Snapshot(base) => {
                    workspaces.create(&id, base.id, created, limit, &progress)?
                }
                Source::Project(new) if new.row.read_only => {
                    workspaces.create_read_only(&id, new.row.base, created, limit, &progress)?
                }
                Source::Project(new) => {
                    workspaces.create(&id, new.row.base, created, limit, &progress)?
                }
                Source::Existing(_) => match workspaces.resume(&id, &progress) {
                    // The workspace was not parked. Or the disk was full when it
                    // was parked, so its files are still in their directory.
                    Err(elevo_workspace::Error::NotParked(_)) => workspaces.path(&id)?,
                    resumed => resumed?,
                },
                Source::Fork(_) | Source::Made => workspaces.path(&id)?,
            };
            let home = workspaces.home(&id)?;
            let binding = match workspaces.follows_in_containers(&id)? {
                true => Some(workspaces.bind(&id)?),
                false => None,
            };
            let record = workspaces.get(&id)?;
            sight.check(record.provider)?;
            Ok(Places {
                files: match &binding {
                    Some(binding) => binding.source().to_owned(),
                    None => files,
                },
                home,
                read_only: record.read_only,
                binding,
                is_slot: false,
                owner: record.owner,
            })
        });
        made.await
    }

    /// Creates the container of a sandbox. The name of the container is the id of
    /// the sandbox, and the row records it before the container exists. So the
    /// container can be found and deleted after any failure.
    async fn make_container(
        &self,
        sandbox: &Sandbox,
        spec: &Spec,
        places: &Places,
        token: &SandboxToken,
    ) -> Result<()> {
        let change = SandboxChange {
            container: Some(Some(sandbox.id.to_string())),
            generation: Some(sandbox.generation),
            token_hash: Some(token.hash()),
            ..SandboxChange::default()
        };
        let now = clock::now();
        self.catalog
            .change_sandbox(sandbox.tenant, &sandbox.id, &change, now)
            .await?;
        let spec = self
            .containers
            .container_spec(&sandbox.id, spec, places, token);
        self.runtime.create(&spec).await?;
        Ok(())
    }

    /// Starts the container of a sandbox, waits for its agent, and sets the state
    /// to running.
    async fn start_container(&self, sandbox: &Sandbox, places: Places) -> Result<Sandbox> {
        let id = &sandbox.id;
        let container = ContainerId::new(id.as_str()).ok_or_else(|| Failure::no_sandbox(id))?;
        self.runtime.start(&container).await?;
        // A mount that follows a project can be made visible only in a running
        // container.
        if let Some(binding) = places.binding {
            let shown = self.stores.with(sandbox.tenant, move |workspaces| {
                Ok(workspaces.show(binding)?)
            });
            shown.await?;
        }
        self.wait_for_start(sandbox).await?;
        self.runs_now(sandbox, &[]).await
    }

    /// Waits until the agent of a sandbox connects. Fails after `START_TIMEOUT`,
    /// or as soon as a request deletes the sandbox.
    async fn wait_for_start(&self, sandbox: &Sandbox) -> Result<()> {
        let (tenant, id) = (sandbox.tenant, &sandbox.id);
        let patience = self.config.limits.start_timeout;
        let began = clock::instant();
        while began.elapsed() < patience {
            let connected = self.links.connected(id);
            let look = Duration::from_millis(500);
            if tokio::time::timeout(look, connected).await.is_ok() {
                return Ok(());
            }
            let row = self.catalog.sandbox(tenant, id).await?;
            if row.is_none_or(|row| row.removing) {
                return Err(Failure::no_sandbox(id));
            }
        }
        let seconds = patience.as_secs();
        let message = format!("the workspace agent did not connect within {seconds} seconds");
        Err(Failure::new(ErrorCode::SandboxStartFailed, message))
    }

    /// Copies the workspace of a sandbox for new sandboxes. Its processes are
    /// frozen while the files are read.
    pub(crate) async fn fork_workspace(
        &self,
        who: &Principal,
        from: &Sandbox,
        into: &[Sandbox],
    ) -> Result<()> {
        let _held = self.locks.hold(&from.id).await;
        let origin = from.workspace.clone();
        self.workspaces.add_forks(from, into).await?;
        let into: Vec<_> = into.iter().map(|row| row.workspace.clone()).collect();
        let info = own_info(who, format!("fork of {}", from.id));
        let frozen = self.freezer.frozen(from);
        let forked = self.stores.with(from.tenant, move |workspaces| {
            workspaces.fork(&origin, &into, info, &frozen, &Progress::new())?;
            Ok(())
        });
        forked.instrument(step!("workspaces.fork")).await
    }

    /// Changes the state of a sandbox and records the event. Fails if the current
    /// state is not in `from`.
    pub(crate) async fn change(
        &self,
        sandbox: &Sandbox,
        from: &[SandboxState],
        to: SandboxState,
        reason: Option<Reason>,
    ) -> Result<Sandbox> {
        let tells = match to {
            SandboxState::Starting => vec![EventKind::SandboxStarting],
            SandboxState::Running => vec![EventKind::SandboxRunning],
            SandboxState::Stopping => Vec::new(),
            SandboxState::Stopped => vec![EventKind::SandboxStopped],
            SandboxState::Error => vec![EventKind::SandboxError],
        };
        let change = SandboxChange {
            from: Some(from.to_vec()),
            to: Some(to),
            generation: Some(sandbox.generation),
            failure: reason.as_ref().and_then(|reason| reason.failure),
            reason: Some(reason.map(|reason| reason.text)),
            tells,
            ..SandboxChange::default()
        };
        self.change_as(sandbox, &change).await
    }

    /// Changes the row of a sandbox. A sandbox that is being deleted counts as
    /// missing.
    pub(crate) async fn change_as(
        &self,
        Sandbox { tenant, id, .. }: &Sandbox,
        change: &SandboxChange,
    ) -> Result<Sandbox> {
        let to = change.to.map_or("another state", SandboxState::name);
        let changed = self
            .catalog
            .change_sandbox(*tenant, id, change, clock::now());
        match changed.await {
            Ok(sandbox) => Ok(sandbox),
            Err(elevo_catalog::Error::NotFound { .. } | elevo_catalog::Error::Removing) => {
                Err(Failure::no_sandbox(id))
            }
            Err(elevo_catalog::Error::WrongState { is }) => {
                let message = format!("the sandbox is {is} and cannot become {to} now");
                let failure = Failure::new(ErrorCode::SandboxWrongState, message);
                Err(failure
                    .about("sandboxId", id.as_str())
                    .about("state", is.name()))
            }
            Err(error) => Err(error.into()),
        }
    }
}
