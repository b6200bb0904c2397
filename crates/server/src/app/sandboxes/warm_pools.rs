//! Warm pools: sandboxes that are started before a request needs them.
//!
//! A warm sandbox is a running container whose agent is connected. It has an id
//! and a token, and an empty slot in the place of a workspace. A request for a
//! matching sandbox takes it: its id becomes the id of the new sandbox, and the
//! workspace is mounted into the slot. Until then it has no row, so after a crash
//! the next server process deletes it like any container without a row.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::AgentLinks;
use elevo_api as api;
use elevo_catalog::Catalog;
use elevo_catalog::secret::SandboxToken;
use elevo_core::{ErrorCode, Retry, SandboxId};
use elevo_sandbox::ContainerId;
use elevo_sandbox::SandboxRuntime;
use elevo_workspace::{Slot, WorkspaceId};

use crate::app::resources::Resources;
use crate::app::sandboxes::containers::{Containers, Places};
use crate::app::sandboxes::pool::{Pool, Taken, Warm};
use crate::app::sandboxes::spec::{Boundary, Spec};
use crate::app::tenant_stores::{self, TenantStores};
use crate::config::{Config, WarmPool};
use crate::failure::{Failure, Result, log_failure};
use crate::platform::clock;
use crate::platform::room::Room;

/// Maximum time between two checks of the pools. A taken sandbox causes a check
/// at once.
const LOOK: Duration = Duration::from_secs(10);
/// Interval at which a pool checks whether requests are still creating
/// sandboxes.
const GIVE_WAY: Duration = Duration::from_millis(50);
/// Maximum containers that are deleted at the same time.
const REMOVALS: usize = 8;

/// A warm pool of the settings, with the specification and the image id that its
/// sandboxes must have now.
struct Wanted {
    setting: WarmPool,
    spec: Spec,
    image: String,
}

impl Wanted {
    /// Returns true if a warm sandbox still has the specification and the image
    /// of this pool.
    fn is(&self, warm: &Warm) -> bool {
        self.setting == warm.setting && self.spec.is_like(&warm.spec) && self.image == warm.image
    }
}

/// Fills the warm pools of the settings, and hands out their sandboxes.
pub(crate) struct WarmPools {
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    links: AgentLinks,
    room: Arc<Room>,
    runtime: Arc<dyn SandboxRuntime>,
    stores: Arc<TenantStores>,
    containers: Arc<Containers>,
    pool: Arc<Pool>,
}

impl WarmPools {
    pub(crate) fn new(resources: &Resources, containers: &Arc<Containers>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            containers: containers.clone(),
            links: resources.links.clone(),
            room: resources.room.clone(),
            runtime: resources.runtime.clone(),
            stores: resources.stores.clone(),
            pool: resources.pool.clone(),
        }
    }

    /// Returns the ids of the sandboxes in the pools that have no row yet.
    pub(crate) fn ids(&self) -> HashSet<SandboxId> {
        self.pool.ids()
    }

    /// Takes a warm sandbox that matches `spec` and whose agent is connected;
    /// `None` if there is none.
    pub(crate) fn take(&self, spec: &Spec) -> Option<Taken> {
        if self.config.warm.is_empty() {
            return None;
        }
        let mut state = self.pool.lock();
        let is_right = |warm: &Warm| warm.spec.is_like(spec) && self.links.get(&warm.id).is_some();
        let found = state.warm.iter().position(is_right);
        crate::platform::metrics::taken(found.is_some());
        let warm = state.warm.remove(found?);
        Some(Taken {
            pool: self.pool.clone(),
            id: warm.id.clone(),
            token_hash: warm.token_hash,
            warm: Some(warm),
        })
    }

    /// Keeps the pools full until the server stops.
    pub(crate) async fn tend(&self) {
        if self.config.warm.is_empty() {
            return;
        }
        // A problem is logged once, not at every check.
        let mut told = String::new();
        loop {
            let problem = match self.tend_once().await {
                Ok(problems) => problems.join("; "),
                Err(failure) => failure.summary(),
            };
            if problem != told && !problem.is_empty() {
                tracing::warn!(cause = problem, "cannot fill a warm pool");
            }
            told = problem;
            let _ = tokio::time::timeout(LOOK, self.pool.changed.notified()).await;
        }
    }

    /// Causes a check of the pools at once. Called when a template or the free
    /// disk space has changed.
    pub(crate) fn check_soon(&self) {
        self.pool.changed.notify_one();
    }

    /// Deletes the warm sandboxes that no pool needs, and creates missing ones.
    /// Returns the problems of pools that cannot be filled.
    async fn tend_once(&self) -> Result<Vec<String>> {
        self.room.check()?;
        let mut problems = Vec::new();
        let mut wanted = Vec::new();
        for setting in &self.config.warm {
            match self.wanted(setting).await {
                Ok(pool) => wanted.push(pool),
                // If the catalog or the engine does not respond, no sandbox may
                // count as unneeded.
                Err(failure) if matches!(failure.code.retry(), Retry::Later | Retry::Unknown) => {
                    return Err(failure);
                }
                Err(failure) => problems.push(failure.summary()),
            }
        }
        // For each pool, the number of sandboxes that it still needs.
        let mut room: Vec<_> = wanted.iter().map(|pool| pool.setting.size).collect();
        let unwanted = self.pool.weed(|warm| {
            let place = wanted.iter().position(|pool| pool.is(warm));
            match place {
                Some(place) if room[place] > 0 && self.links.get(&warm.id).is_some() => {
                    room[place] -= 1;
                    true
                }
                _ => false,
            }
        });
        let unwanted = unwanted.into_iter().map(|warm| warm.id);
        self.discard_all(unwanted.collect()).await;
        for (pool, count) in wanted.iter().zip(room) {
            for _ in 0..count {
                self.tell_pools();
                if let Err(failure) = self.make_warm(pool).await {
                    problems.push(failure.summary());
                    break;
                }
            }
        }
        self.tell_pools();
        Ok(problems)
    }

    /// Resolves a pool of the settings. Fails if its template or image is
    /// missing.
    async fn wanted(&self, setting: &WarmPool) -> Result<Wanted> {
        let name = &setting.template;
        let template = self.catalog.template(name).await?;
        let template = template.ok_or_else(|| crate::app::missing::no_template(name))?;
        let wish = api::CreateSandbox {
            network: setting.network,
            runtime: setting.runtime.clone(),
            template: name.clone(),
            ..api::CreateSandbox::default()
        };
        let boundary = Boundary::of_server(&self.config);
        let can_limit = self.stores.can_limit();
        let spec = Spec::decide(&self.config, &boundary, &wish, &template, can_limit)?;
        let image = self.runtime.image(&spec.image).await?;
        let image = image.ok_or_else(|| crate::app::missing::no_template(name))?;
        Ok(Wanted {
            setting: setting.clone(),
            spec,
            image: image.id,
        })
    }

    /// Creates a warm sandbox. Waits until no request is creating a sandbox, so
    /// that requests are not delayed.
    async fn make_warm(&self, pool: &Wanted) -> Result<()> {
        let most = self.config.limits.max_concurrent_creations as usize;
        while self.containers.creations.available_permits() < most {
            tokio::time::sleep(GIVE_WAY).await;
        }
        let (id, token) = (clock::id(), SandboxToken::from_random(clock::random()));
        let token_hash = token.hash();
        // Registered before the container exists: the cleanup would delete an
        // unknown container, and the agent's token must be valid.
        self.pool.know(&id, token_hash);
        let made = self.start_warm(&id, &token, &pool.spec).await;
        if let Err(failure) = made {
            self.discard(&id).await?;
            return Err(failure);
        }
        self.pool.lock().warm.push(Warm {
            id,
            setting: pool.setting.clone(),
            spec: pool.spec.clone(),
            image: pool.image.clone(),
            token_hash,
        });
        Ok(())
    }

    /// Creates and starts a container with an empty slot, and waits for its
    /// agent.
    async fn start_warm(&self, id: &SandboxId, token: &SandboxToken, spec: &Spec) -> Result<()> {
        let (slots, workspace) = (self.containers.slots.clone(), WorkspaceId::from(id));
        let slot = tenant_stores::blocking(move || Ok(slots.make(&workspace)?)).await?;
        let places = Places::of_slot(slot.clone());
        let spec = self.containers.container_spec(id, spec, &places, token);
        let container = self.runtime.create(&spec).await?;
        self.runtime.start(&container).await?;
        let patience = self.config.limits.start_timeout;
        let connected = tokio::time::timeout(patience, self.links.connected(id)).await;
        connected.map_err(|_| {
            let message =
                "the workspace agent of a warm sandbox did not connect within START_TIMEOUT";
            Failure::new(ErrorCode::SandboxStartFailed, message)
        })?;
        self.check_slot(&container, id, &slot).await
    }

    /// Checks that mounts which are made after the start of a container are
    /// visible in it. With some runtimes they are not, and the sandbox would have
    /// an empty workspace.
    async fn check_slot(&self, container: &ContainerId, id: &SandboxId, slot: &Slot) -> Result<()> {
        let status = self.runtime.status(container).await?;
        let pid = status.and_then(|status| status.pid);
        let (slots, workspace) = (self.containers.slots.clone(), WorkspaceId::from(id));
        let probe = slot.home.clone();
        let is_seen = tenant_stores::blocking(move || {
            // Mounts a directory into the slot as a test. It can be any
            // directory other than the slot.
            slots.fill(&workspace, &probe, &probe)?;
            let seen = pid.is_some_and(|pid| {
                let inside = format!("/proc/{pid}/root/workspace");
                is_same(inside.as_ref(), &probe)
            });
            slots.empty(&workspace)?;
            Ok(seen)
        });
        match is_seen.await? {
            true => Ok(()),
            false => {
                let message = "the runtime of this warm pool does not show mounts that are made \
                               after the start of a container; remove the pool from the settings";
                Err(Failure::new(ErrorCode::SandboxStartFailed, message))
            }
        }
    }

    /// Deletes a container without a row, and removes it from the pools.
    async fn discard(&self, id: &SandboxId) -> Result<()> {
        self.containers.remove_container(id).await?;
        self.pool.forget(id);
        Ok(())
    }

    /// Deletes containers without a row. Logs failures. Returns the number of
    /// deleted containers.
    pub(crate) async fn discard_all(&self, ids: Vec<SandboxId>) -> u64 {
        let mut removed = 0;
        for some in ids.chunks(REMOVALS) {
            let discarded = some
                .iter()
                .map(|id| async move { (id, self.discard(id).await) });
            for (id, discarded) in futures::future::join_all(discarded).await {
                let done = log_failure(discarded, "container", id, "cannot delete a container");
                removed += u64::from(done.is_some());
            }
        }
        removed
    }

    /// Deletes all sandboxes of the pools that have no row, because the server is
    /// stopping.
    pub(crate) async fn drain(&self) {
        self.pool.lock().warm.clear();
        let ids = self.pool.ids();
        self.discard_all(ids.into_iter().collect()).await;
    }

    /// Deletes the slots that belong neither to a sandbox in `known` nor to a
    /// warm sandbox.
    pub(crate) async fn clear_slots(&self, known: &HashSet<&str>) -> Result<()> {
        let slots = self.containers.slots.clone();
        let ids: Vec<WorkspaceId> = tenant_stores::blocking(move || Ok(slots.list()?)).await?;
        let warm = self.pool.ids();
        for id in ids {
            if !known.contains(id.as_str()) && !warm.contains(id.as_str()) {
                log_failure(
                    self.containers.remove_slot(id.clone()).await,
                    "slot",
                    &id,
                    "cannot delete a slot",
                );
            }
        }
        Ok(())
    }

    /// Returns the size of each pool and the number of its ready sandboxes.
    pub(crate) fn stats(&self) -> Vec<api::PoolStats> {
        let state = self.pool.lock();
        let settings = self.config.warm.iter();
        let stats = settings.map(|setting| {
            let ready = state.warm.iter().filter(|warm| warm.setting == *setting);
            api::PoolStats {
                template: setting.template.clone(),
                network: setting.network.unwrap_or(self.config.default_network),
                runtime: setting.runtime.clone(),
                size: setting.size,
                ready: ready.count() as u32,
            }
        });
        stats.collect()
    }

    fn tell_pools(&self) {
        crate::platform::metrics::pools(&self.stats());
    }
}

/// Returns true if two paths lead to the same file or directory.
fn is_same(one: &std::path::Path, other: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &std::path::Path| {
        let found = std::fs::metadata(path);
        found.map(|stat| (stat.dev(), stat.ino())).ok()
    };
    identity(one).is_some() && identity(one) == identity(other)
}
