//! Containers of sandboxes, their slots, and the turns to create them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::AgentLinks;
use elevo_catalog::secret::SandboxToken;
use elevo_core::ErrorCode;
use elevo_sandbox::{ContainerId, ContainerSpec, Mount, Network, SandboxRuntime, User};
use elevo_workspace::{Binding, Owner, Slot, Slots};
use tokio::sync::Semaphore;

use crate::app::resources::Resources;
use crate::app::sandboxes::reasons::{GONE, ended};
use crate::app::sandboxes::spec::Spec;
use crate::app::tenant_stores;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// Maximum time that a creation waits for its turn.
const TURN: Duration = Duration::from_secs(60);

/// Creations that wait for each one that runs: at half a second each, the last
/// has its turn within ten seconds.
pub(crate) const LINE: usize = 20;

/// Paths in a container.
const AGENT: &str = "/.elevo/bin/workspace-agent";

const AGENT_DIR: &str = "/.elevo/bin";

const SOCKET_DIR: &str = "/.elevo/run";

const HOME: &str = "/home/agent";

/// Directories of a workspace on this machine.
pub(crate) struct Places {
    pub(crate) files: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) read_only: bool,
    /// The mount of a workspace that follows a project, shown once the
    /// container runs.
    pub(crate) binding: Option<Binding>,
    /// Whether these are an empty slot, which is filled once the container
    /// runs.
    pub(crate) is_slot: bool,
    /// The owner of the files. They may be older than the setting.
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

/// Containers of sandboxes, their slots, and the turns to create them.
pub(crate) struct Containers {
    config: Arc<Config>,
    links: AgentLinks,
    runtime: Arc<dyn SandboxRuntime>,
    /// Limits the sandboxes that are created at the same time.
    pub(super) creations: Semaphore,
    /// Limits the creations that wait for a turn.
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

    /// Returns the reason for which a container ended, as far as the engine
    /// knows.
    pub(crate) async fn why_ended(&self, container: &ContainerId) -> Result<String> {
        let status = self.runtime.status(container).await?;
        Ok(status.as_ref().map_or_else(|| GONE.to_owned(), ended))
    }

    /// Mounts the workspace of a sandbox in its slot.
    pub(crate) async fn fill_slot(&self, id: &str, places: &Places) -> Result<()> {
        let (slots, id) = (self.slots.clone(), tenant_stores::workspace_id(id)?);
        let (files, home) = (places.files.clone(), places.home.clone());
        tenant_stores::blocking(move || Ok(slots.fill(&id, &files, &home)?)).await
    }

    /// Deletes the slot of a sandbox, if it has one.
    pub(crate) async fn remove_slot(&self, id: &str) -> Result<()> {
        let (slots, id) = (self.slots.clone(), tenant_stores::workspace_id(id)?);
        tenant_stores::blocking(move || Ok(slots.remove(&id)?)).await
    }

    /// Whether a sandbox was once warm, and still has that container.
    pub(crate) fn has_slot(&self, id: &str) -> Result<bool> {
        Ok(self.slots.get(&tenant_stores::workspace_id(id)?).is_some())
    }

    /// Waits for a turn to create a sandbox. The line is limited to what can be
    /// served while a client waits.
    pub(crate) async fn turn_to_create(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
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

    /// Deletes the container of a sandbox, with its connection and its slot.
    pub(crate) async fn remove_container(&self, id: &str) -> Result<()> {
        if let Some(container) = ContainerId::new(id) {
            self.runtime.remove(&container).await?;
        }
        self.links.forget(id);
        self.remove_slot(id).await
    }

    /// Returns the user of new sandboxes.
    pub(crate) fn sandbox_user(&self) -> Owner {
        let (uid, gid) = self.config.sandbox_user;
        Owner { uid, gid }
    }

    pub(crate) fn container_spec(
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
}
