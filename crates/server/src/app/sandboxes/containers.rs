//! Containers of sandboxes: their specifications, their slots, and the limit of
//! concurrent creations. A slot is an empty directory that a container is created
//! with; the workspace is mounted into it later.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::AgentLinks;
use elevo_catalog::secret::SandboxToken;
use elevo_core::{ErrorCode, SandboxId, WorkspaceId};
use elevo_sandbox::{ContainerId, ContainerSpec, Mount, Network, SandboxRuntime, User};
use elevo_workspace::{Binding, Owner, Slot, Slots};
use tokio::sync::Semaphore;

use crate::app::resources::Resources;
use crate::app::sandboxes::reasons::Reason;
use crate::app::sandboxes::spec::Spec;
use crate::app::tenant_stores;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// Maximum time that a creation waits for a permit.
const TURN: Duration = Duration::from_secs(60);

/// Maximum waiting creations for each running one. A creation takes about half a
/// second, so the last one waits about ten seconds.
pub(crate) const LINE: usize = 20;

/// Path of the workspace agent in a container.
const AGENT: &str = "/.elevo/bin/workspace-agent";

/// Directory of the workspace agent in a container.
const AGENT_DIR: &str = "/.elevo/bin";

/// Directory of the server's socket for agents in a container.
const SOCKET_DIR: &str = "/.elevo/run";

/// Home directory of the user in a container.
const HOME: &str = "/home/agent";

/// The directories on this machine that a container mounts: those of a workspace
/// or of a slot.
pub(crate) struct Places {
    pub(crate) files: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) read_only: bool,
    /// The mount of a workspace that follows a project. It is made visible in the
    /// container once the container runs.
    pub(crate) binding: Option<Binding>,
    /// True for an empty slot, into which the workspace is mounted once the
    /// container runs.
    pub(crate) is_slot: bool,
    /// The owner of the files; `None` for the user in the settings. Existing
    /// files may have an owner from an earlier setting.
    pub(crate) owner: Option<Owner>,
}

impl Places {
    pub(crate) fn of_slot(slot: Slot) -> Self {
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

/// Builds, inspects and deletes the containers of sandboxes and their slots, and
/// limits concurrent creations.
pub(crate) struct Containers {
    config: Arc<Config>,
    links: AgentLinks,
    runtime: Arc<dyn SandboxRuntime>,
    /// Limits the sandboxes that are created at the same time.
    pub(super) creations: Semaphore,
    /// Limits the creations that wait for a permit of `creations`.
    creations_waiting: Semaphore,
    pub(super) slots: Arc<Slots>,
}

impl Containers {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            config: resources.config.clone(),
            links: resources.links.clone(),
            runtime: resources.runtime.clone(),
            creations: Semaphore::new(resources.config.limits.max_concurrent_creations as usize),
            creations_waiting: Semaphore::new(
                resources.config.limits.max_concurrent_creations as usize * LINE,
            ),
            slots: Arc::new(Slots::new(resources.config.data_dir.join("slots"))),
        }
    }

    /// Returns the reason for which a container ended, for the row of its
    /// sandbox.
    pub(crate) async fn why_ended(&self, container: &ContainerId) -> Result<Reason> {
        let status = self.runtime.status(container).await?;
        Ok(status
            .as_ref()
            .map_or_else(Reason::container_gone, Reason::container_ended))
    }

    /// Mounts the workspace of a sandbox into its slot, which makes the files
    /// visible in the running container.
    pub(crate) async fn fill_slot(&self, id: &SandboxId, places: &Places) -> Result<()> {
        let (slots, id) = (self.slots.clone(), WorkspaceId::from(id));
        let (files, home) = (places.files.clone(), places.home.clone());
        tenant_stores::blocking(move || Ok(slots.fill(&id, &files, &home)?)).await
    }

    /// Deletes the slot of a sandbox, if it has one.
    pub(crate) async fn remove_slot(&self, id: WorkspaceId) -> Result<()> {
        let slots = self.slots.clone();
        tenant_stores::blocking(move || Ok(slots.remove(&id)?)).await
    }

    /// Returns true if the container of a sandbox has a slot, because it comes
    /// from a warm pool.
    pub(crate) fn has_slot(&self, id: &SandboxId) -> bool {
        self.slots.get(&id.into()).is_some()
    }

    /// Waits for a permit to create a sandbox. Fails at once if so many creations
    /// wait that a client would not wait for its result.
    pub(crate) async fn turn_to_create(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let refused = || {
            let message = "too many sandboxes are being created; retry later";
            Failure::new(ErrorCode::Overloaded, message).retry_after(10)
        };
        let place = self.creations_waiting.try_acquire();
        let _place = place.map_err(|_| refused())?;
        let turn = tokio::time::timeout(TURN, self.creations.acquire()).await;
        turn.ok()
            .and_then(std::result::Result::ok)
            .ok_or_else(refused)
    }

    /// Deletes the container of a sandbox and its slot, and closes the connection
    /// to its agent.
    pub(crate) async fn remove_container(&self, id: &SandboxId) -> Result<()> {
        if let Some(container) = ContainerId::new(id.as_str()) {
            self.runtime.remove(&container).await?;
        }
        self.links.forget(id);
        self.remove_slot(id.into()).await
    }

    /// Returns the user that processes in new sandboxes run as.
    pub(crate) fn sandbox_user(&self) -> Owner {
        let (uid, gid) = self.config.sandbox_user;
        Owner { uid, gid }
    }

    pub(crate) fn container_spec(
        &self,
        id: &SandboxId,
        spec: &Spec,
        places: &Places,
        token: &SandboxToken,
    ) -> ContainerSpec {
        let Owner { uid, gid } = places.owner.unwrap_or(self.sandbox_user());
        let server = format!("unix://{SOCKET_DIR}/agent.sock");
        // The variables of the sandbox are not set here, but sent with each
        // command: the container engine would store them in a plain file.
        let env = BTreeMap::from([
            ("HOME".into(), HOME.into()),
            ("WORKSPACE_SERVER".into(), server),
            ("SANDBOX_ID".into(), id.to_string()),
            ("SANDBOX_TOKEN".into(), token.reveal()),
        ]);
        ContainerSpec {
            sandbox: id.to_string(),
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
            hostname: Some(id.to_string()),
        }
    }
}
