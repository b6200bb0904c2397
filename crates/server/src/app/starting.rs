//! The start of a sandbox: workspace, container, agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{EventKind, Sandbox, SandboxChange, Workspace};
use elevo_core::{ErrorCode, SandboxState};
use elevo_engine::Progress;
use elevo_sandbox::{ContainerId, ContainerSpec, Mount, Network, User};
use elevo_workspace::{Binding, Owner, Slot};
use tracing::Instrument;

use crate::app::kept::Kept;
use crate::app::lost::keeps_container;
use crate::app::projects::NewWorkspace;
use crate::app::sandboxes::NewSandbox;
use crate::app::spec::Spec;
use crate::app::{App, Principal, parts};
use crate::clock;
use crate::failure::{Failure, Result};
use crate::trace::step;

/// Maximum time that a creation waits for its turn.
const TURN: Duration = Duration::from_secs(60);
/// Creations that wait for each one that runs: at half a second each, the last
/// has its turn within ten seconds.
pub(super) const LINE: usize = 20;

/// The source of a workspace.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Empty,
    Snapshot(Kept),
    /// A workspace on a project, whose row is to be added.
    Project(Box<NewWorkspace>),
    /// The workspace of another sandbox, and the principal of the request.
    Fork(Box<(Principal, Sandbox)>),
    /// A parked workspace.
    Existing(Box<Workspace>),
    /// The workspace already exists.
    Made,
}

/// Directories of a workspace on this machine.
pub(super) struct Places {
    pub(super) files: PathBuf,
    pub(super) home: PathBuf,
    read_only: bool,
    /// The mount of a workspace that follows a project, shown once the
    /// container runs.
    binding: Option<Binding>,
    /// Whether these are an empty slot, which is filled once the container
    /// runs.
    is_slot: bool,
    /// The owner of the files. They may be older than the setting.
    owner: Option<Owner>,
}

impl Places {
    pub(super) fn of_slot(slot: Slot) -> Self {
        Self {
            files: slot.workspace,
            home: slot.home,
            read_only: false,
            binding: None,
            is_slot: true,
            owner: None,
        }
    }
}

/// Reason stored while an existing sandbox starts again. A new sandbox has
/// none. Recovery relies on this: it may roll back only a sandbox whose id was
/// never returned.
pub(crate) const AGAIN: &str = "it is being started again";

/// Paths in a container.
const AGENT: &str = "/.elevo/bin/workspace-agent";
const AGENT_DIR: &str = "/.elevo/bin";
const SOCKET_DIR: &str = "/.elevo/run";
const HOME: &str = "/home/agent";

impl App {
    /// Creates the sandbox of a new row. If that fails, everything is rolled
    /// back.
    pub(crate) async fn make(
        &self,
        new: NewSandbox,
        spec: Spec,
        source: Source,
    ) -> Result<Sandbox> {
        let started = clock::instant();
        // The workspace is locked first, as everywhere: a parked one may be on
        // its way into the store.
        let existing = match &source {
            Source::Existing(row) => Some(self.hold(&row.id).await),
            _ => None,
        };
        let held = self.hold(&new.row.id).await;
        let made = self.make_held(&new, &spec, source).await;
        // `give_up` locks the sandbox again, and would wait for this task
        // forever.
        drop((held, existing));
        match made {
            Ok(sandbox) => {
                crate::metrics::created(started.elapsed());
                Ok(sandbox)
            }
            Err(failure) => {
                crate::metrics::creation_failed();
                tracing::warn!(
                    sandbox = new.row.id,
                    cause = failure.summary(),
                    "not created"
                );
                self.give_up(&new.row.id).await;
                Err(failure)
            }
        }
    }

    /// Waits for a turn to create a sandbox. The line is limited to what can be
    /// served while a client waits.
    async fn turn_to_create(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let refused = || {
            let message = "too many sandboxes are being created";
            Failure::new(ErrorCode::Overloaded, message).retry_after(10)
        };
        let place = self.creations_waiting.try_acquire();
        let _place = place.map_err(|_| refused())?;
        let turn = tokio::time::timeout(TURN, self.creations.acquire()).await;
        turn.ok()
            .and_then(std::result::Result::ok)
            .ok_or_else(refused)
    }

    async fn make_held(&self, new: &NewSandbox, spec: &Spec, source: Source) -> Result<Sandbox> {
        let sandbox = &new.row;
        // Before the turn: the task that holds the origin may be waiting for
        // one.
        if let Source::Fork(origin) = &source {
            let (who, origin) = &**origin;
            self.fork_workspace(who, origin, std::slice::from_ref(sandbox))
                .await?;
        }
        if let Source::Project(new) = &source {
            self.catalog.add_workspace(&new.row).await?;
        }
        if let Source::Existing(row) = &source {
            self.revive(row).await?;
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
                sandbox = sandbox.id,
                cause,
                "cannot use a warm container, so a new one starts"
            );
            // The new container has the same name. The workspace exists
            // already.
            self.remove_container(&sandbox.id).await?;
            return self.make_cold(new, spec, Source::Made).await;
        }
        self.runs_now(sandbox, &[EventKind::AgentConnected]).await
    }

    /// Marks a sandbox as running: commands can run in it from now on.
    async fn runs_now(&self, sandbox: &Sandbox, before: &[EventKind]) -> Result<Sandbox> {
        let mut tells = before.to_vec();
        tells.push(EventKind::SandboxRunning);
        if sandbox.reason.as_deref() != Some(AGAIN) {
            tells.push(EventKind::SandboxCreated);
        }
        let change = SandboxChange {
            from: Some(vec![SandboxState::Starting]),
            to: Some(SandboxState::Running),
            reason: Some(None),
            tells,
            ..SandboxChange::default()
        };
        self.change_as(&sandbox.id, &change).await
    }

    /// Shows a workspace in a warm container.
    async fn use_warm(&self, id: &str, places: &Places) -> Result<()> {
        if places.read_only {
            let message = "a read-only workspace cannot be shown in a running container";
            return Err(Failure::new(ErrorCode::SandboxStartFailed, message));
        }
        if places
            .owner
            .is_some_and(|owner| owner != self.sandbox_user())
        {
            let message = "the files belong to another user than the running container";
            return Err(Failure::new(ErrorCode::SandboxStartFailed, message));
        }
        self.fill_slot(id, places).await?;
        match self.links.get(id) {
            Some(_) => Ok(()),
            None => {
                let message = "the agent is no longer connected";
                Err(Failure::new(ErrorCode::AgentUnreachable, message))
            }
        }
    }

    async fn make_cold(&self, new: &NewSandbox, spec: &Spec, source: Source) -> Result<Sandbox> {
        let sandbox = &new.row;
        let _turn = self.turn_to_create().instrument(step!("turn.wait")).await?;
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

    /// Deletes the container of a sandbox, with its connection and its slot.
    pub(super) async fn remove_container(&self, id: &str) -> Result<()> {
        if let Some(container) = ContainerId::new(id) {
            self.runtime.remove(&container).await?;
        }
        self.links.forget(id);
        self.remove_slot(id).await
    }

    async fn make_workspace(&self, row: &Sandbox, spec: &Spec, source: Source) -> Result<Places> {
        let id = parts::workspace_id(&row.workspace)?;
        let (created, limit) = (row.created, spec.disk);
        let made = self.homes.with(row.tenant, move |workspaces| {
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
                    // Its files were never moved into the store.
                    Err(elevo_workspace::Error::NotParked(_)) => workspaces.path(&id)?,
                    resumed => resumed?,
                },
                Source::Fork(_) | Source::Made => workspaces.path(&id)?,
            };
            let home = workspaces.home(&id)?;
            let binding = match workspaces.shares(&id)? {
                true => Some(workspaces.bind(&id)?),
                false => None,
            };
            let record = workspaces.get(&id)?;
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

    /// Creates the container of a sandbox. It is named by the sandbox's id,
    /// which is recorded first, so that it is found after any failure.
    async fn make_container(
        &self,
        sandbox: &Sandbox,
        spec: &Spec,
        places: &Places,
        token: &SandboxToken,
    ) -> Result<()> {
        let change = SandboxChange {
            container: Some(Some(sandbox.id.clone())),
            token_hash: Some(token.hash()),
            ..SandboxChange::default()
        };
        let now = clock::now();
        self.catalog
            .change_sandbox(&sandbox.id, &change, now)
            .await?;
        let spec = self.container_spec(&sandbox.id, spec, places, token);
        self.runtime.create(&spec).await?;
        Ok(())
    }

    /// Returns the user of new sandboxes.
    fn sandbox_user(&self) -> Owner {
        let (uid, gid) = self.config.sandbox_user;
        Owner { uid, gid }
    }

    pub(super) fn container_spec(
        &self,
        id: &str,
        spec: &Spec,
        places: &Places,
        token: &SandboxToken,
    ) -> ContainerSpec {
        let Owner { uid, gid } = places.owner.unwrap_or(self.sandbox_user());
        let server = format!("unix://{SOCKET_DIR}/agent.sock");
        // Its variables are sent with each command: see `secrets.rs`. The
        // container engine would keep them in a plain file.
        let env = BTreeMap::from([
            ("HOME".into(), HOME.into()),
            ("WORKSPACE_SERVER".into(), server),
            ("SANDBOX_ID".into(), id.into()),
            ("SANDBOX_TOKEN".into(), token.reveal()),
        ]);
        ContainerSpec {
            sandbox: id.into(),
            image: spec.image.clone(),
            user: User { uid, gid },
            mounts: vec![
                Mount {
                    read_only: places.read_only,
                    follow: places.binding.is_some() || places.is_slot,
                    ..Mount::writable(&places.files, "/workspace")
                },
                Mount {
                    follow: places.is_slot,
                    ..Mount::writable(&places.home, HOME)
                },
                Mount::read_only(self.config.data_dir.join("agent"), AGENT_DIR),
                Mount::read_only(self.config.data_dir.join("run/agents"), SOCKET_DIR),
            ],
            working_dir: "/workspace".into(),
            command: vec![AGENT.into()],
            env,
            cpu_millis: spec.cpu,
            memory: spec.memory,
            pids: spec.pids,
            network: match spec.network {
                elevo_api::NetworkMode::None => Network::None,
                elevo_api::NetworkMode::Internet => Network::Internet,
            },
            runtime: spec.runtime.clone(),
            writable_root: spec.writable_root,
            tmpfs: vec![("/tmp".into(), (spec.memory / 2).max(1 << 20))],
            hostname: Some(id.into()),
        }
    }

    /// Starts the container and waits for its agent.
    async fn start_container(&self, sandbox: &Sandbox, places: Places) -> Result<Sandbox> {
        let id = &*sandbox.id;
        let container = ContainerId::new(id).ok_or_else(|| Failure::no_sandbox(id))?;
        self.runtime.start(&container).await?;
        if let Some(binding) = places.binding {
            let shown = self.homes.with(sandbox.tenant, move |workspaces| {
                Ok(workspaces.show(binding)?)
            });
            shown.await?;
        }
        self.wait_for_start(id).await?;
        self.runs_now(sandbox, &[]).await
    }

    /// Waits for the agent, unless the sandbox is deleted.
    async fn wait_for_start(&self, id: &str) -> Result<()> {
        let patience = self.config.limits.start_timeout;
        let began = clock::instant();
        while began.elapsed() < patience {
            let connected = self.links.connected(id);
            let look = Duration::from_millis(500);
            if tokio::time::timeout(look, connected).await.is_ok() {
                return Ok(());
            }
            let row = self.catalog.sandbox_of_any_tenant(id).await?;
            if row.is_none_or(|row| row.removing) {
                return Err(Failure::no_sandbox(id));
            }
        }
        let seconds = patience.as_secs();
        let message = format!("the agent did not connect within {seconds} seconds");
        Err(Failure::new(ErrorCode::SandboxStartFailed, message))
    }

    /// Starts a sandbox that was stopped or has failed: in its container if
    /// that has run, else in a new one.
    pub(crate) async fn start_again(&self, id: &str) -> Result<Sandbox> {
        let _held = self.hold(id).await;
        let _making = self.makers.enter(id);
        let before = self.catalog.sandbox_of_any_tenant(id).await?;
        let before = before.ok_or_else(|| Failure::no_sandbox(id))?;
        let from = [SandboxState::Stopped, SandboxState::Error];
        let again = Some(AGAIN.into());
        let sandbox = self
            .change(id, &from, SandboxState::Starting, again)
            .await?;
        let started = self.start_held(&sandbox, &before).await;
        if let Err(failure) = &started {
            let starting = [SandboxState::Starting];
            let cause = failure.summary();
            tracing::warn!(sandbox = id, cause, "cannot start a sandbox");
            let reason = Some(failure.message.clone());
            self.change(id, &starting, SandboxState::Error, reason)
                .await?;
        }
        started
    }

    async fn start_held(&self, sandbox: &Sandbox, before: &Sandbox) -> Result<Sandbox> {
        let _turn = self.turn_to_create().await?;
        let spec = Spec::of(sandbox)?;
        let places = self.make_workspace(sandbox, &spec, Source::Made).await?;
        let container =
            ContainerId::new(&sandbox.id).ok_or_else(|| Failure::no_sandbox(&sandbox.id))?;
        let keep = keeps_container(before) && self.runtime.status(&container).await?.is_some();
        // Otherwise the wait for the agent would end at once, with the
        // connection of the previous run.
        self.links.forget(&sandbox.id);
        if keep {
            self.runtime.kill(&container).await?;
            if self.has_slot(&sandbox.id)? {
                self.fill_slot(&sandbox.id, &places).await?;
            }
        } else {
            self.remove_container(&sandbox.id).await?;
            let token = SandboxToken::from_random(clock::random());
            self.make_container(sandbox, &spec, &places, &token).await?;
        }
        self.start_container(sandbox, places).await
    }

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
}
