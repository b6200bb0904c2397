//! The use cases of the server, independent of the API that calls them.

mod archives;
mod backing_up;
mod clearing;
mod content;
mod diff;
mod erasure;
mod events;
mod expiry;
mod files;
mod garbage;
mod kept;
mod keys;
mod lost;
mod makers;
mod once;
mod parking;
mod parts;
mod pool;
mod principal;
mod processes;
mod projects;
mod quarantine;
mod recovery;
mod repeated;
mod room;
mod sandboxes;
mod secrets;
mod spec;
mod starting;
mod stopping;
mod system;
mod templates;
mod tenants;
mod terminals;
mod timekeeping;
mod webhooks;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use elevo_agent_link::{AgentLink, AgentLinks};
use elevo_catalog::{Catalog, Sandbox};
use elevo_core::{ErrorCode, SandboxState};
use elevo_merge::Drivers;
use elevo_sandbox::SandboxRuntime;
use elevo_workspace::Slots;
use tokio::sync::{Mutex, Notify, Semaphore, watch};

use crate::audit::Audit;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::installation::Installation;
use crate::room::Room;
use crate::vault::Vault;
use parts::Tenants;
use pool::Pool;

pub(crate) use content::Content;
pub(crate) use diff::DiffQuery;
pub(crate) use events::{EventsQuery, Following, out as event_out};
pub(crate) use garbage::GarbageSchedule;
pub(crate) use once::{Beginning, Once, Sent, Turn};
pub use parts::Parts;
pub(crate) use parts::tenant_from;
pub(crate) use pool::Pool as WarmPool;
pub(crate) use principal::Principal;
pub(crate) use processes::{Ended, Reading, Streamed, exit_code};
pub(crate) use projects::{Looks, OnConflict, PageQuery, ReviewsQuery, Side};
pub(crate) use sandboxes::{ListQuery, LogsQuery};
pub(crate) use stopping::Phase;
pub(crate) use webhooks::DeliveriesQuery;

/// Everything that the use cases need.
pub struct App {
    pub(crate) config: Config,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) runtime: Arc<dyn SandboxRuntime>,
    pub(crate) links: AgentLinks,
    pub(crate) audit: Arc<Audit>,
    pub(crate) homes: Tenants,
    /// Limits the sandboxes that are created at the same time.
    creations: Semaphore,
    /// Limits the creations that wait for that.
    creations_waiting: Semaphore,
    makers: Arc<makers::Makers>,
    pool: Arc<Pool>,
    slots: Arc<Slots>,
    /// Locks of sandboxes: only one operation at a time changes each.
    held: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    policies: projects::Policies,
    queues: projects::Queues,
    drivers: Drivers,
    heads: projects::Heads,
    collecting: garbage::Collecting,
    /// Identifies this process among those that share a catalog.
    process: String,
    at_work: Arc<once::AtWork>,
    pub(crate) installation: Installation,
    pub(crate) room: Arc<Room>,
    pub(crate) backups: backing_up::Backups,
    ending: Arc<expiry::Ending>,
    time: timekeeping::Timekeeper,
    /// Sequence number of the newest event, for followers.
    pulse: watch::Sender<u64>,
    /// Counts revocations of keys, for streams that end with their key.
    revocations: watch::Sender<u64>,
    /// Limits the followers that read events at the same time.
    following: Semaphore,
    /// Notified when something about webhooks has changed.
    pub(crate) hooks: Notify,
    /// Terminals with connected clients.
    pub(crate) watched: terminals::Watched,
    /// Sandboxes of the previous server process that are not reconciled with
    /// the container engine yet.
    unrecovered: std::sync::Mutex<HashSet<String>>,
    /// Whether requests of the previous server process are still marked as
    /// running.
    unreleased: std::sync::atomic::AtomicBool,
    missing: lost::Missing,
    stopping: stopping::Stopping,
    known_tenants: tenants::KnownTenants,
    pub(crate) vault: Vault,
    presences: tenants::Presences,
    /// Notified when a tenant is to be erased.
    erasures: Notify,
    /// The last result of probing the catalog and the engine.
    probed: Mutex<Option<system::Probed>>,
    pub(crate) started: Instant,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("App");
        shown
            .field("data", &self.config.data_dir)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Creates the use cases from their parts.
    pub fn new(config: Config, parts: Parts) -> Self {
        let vault = Vault::new(config.secrets_key_file.clone(), parts.catalog.clone());
        Self {
            creations: Semaphore::new(config.limits.max_concurrent_creations as usize),
            creations_waiting: Semaphore::new(
                config.limits.max_concurrent_creations as usize * starting::LINE,
            ),
            makers: Arc::default(),
            pool: parts.pool,
            slots: Arc::new(Slots::new(config.data_dir.join("slots"))),
            catalog: parts.catalog,
            runtime: parts.runtime,
            links: parts.links,
            audit: parts.audit,
            homes: Tenants::new(parts.store, &config),
            held: Mutex::default(),
            policies: projects::Policies::default(),
            queues: projects::Queues::default(),
            drivers: Drivers::standard(),
            heads: projects::Heads::default(),
            collecting: garbage::Collecting::default(),
            process: crate::clock::id("srv-"),
            at_work: Arc::default(),
            installation: Installation::new(&config),
            room: Arc::new(Room::new(&config)),
            backups: backing_up::Backups::default(),
            ending: Arc::default(),
            time: timekeeping::Timekeeper::new(config.clocks.clone()),
            pulse: watch::Sender::new(0),
            revocations: watch::Sender::new(0),
            following: Semaphore::new(events::READERS),
            hooks: Notify::new(),
            watched: terminals::Watched::default(),
            unrecovered: std::sync::Mutex::default(),
            unreleased: std::sync::atomic::AtomicBool::default(),
            missing: lost::Missing::default(),
            stopping: stopping::Stopping::default(),
            known_tenants: tenants::KnownTenants::default(),
            vault,
            presences: tenants::Presences::default(),
            erasures: Notify::new(),
            probed: Mutex::default(),
            started: crate::clock::instant(),
            config,
        }
    }

    /// Subscribes to the sequence number of the newest event.
    pub(crate) fn pulse(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }

    /// Returns a sandbox that this principal may see.
    pub(crate) async fn visible(&self, who: &Principal, id: &str) -> Result<Sandbox> {
        let found = self.catalog.sandbox(who.tenant, id).await?;
        let found = found.filter(|sandbox| who.sees(sandbox) && !sandbox.removing);
        found.ok_or_else(|| Failure::no_sandbox(id))
    }

    /// Returns the connection to the agent of a running sandbox.
    pub(crate) async fn agent_of(&self, who: &Principal, id: &str) -> Result<AgentLink> {
        Ok(self.agent_and_row(who, id).await?.0)
    }

    pub(crate) async fn agent_and_row(
        &self,
        who: &Principal,
        id: &str,
    ) -> Result<(AgentLink, Sandbox)> {
        let sandbox = self.visible(who, id).await?;
        if sandbox.state != SandboxState::Running {
            return Err(wrong_state(&sandbox, "serve requests"));
        }
        let link = match self.links.get(id) {
            Some(link) => link,
            None => self.wait_for_agent(&sandbox).await?,
        };
        Ok((link, sandbox))
    }

    /// After a restart of the server, agents reconnect within moments.
    async fn wait_for_agent(&self, sandbox: &Sandbox) -> Result<AgentLink> {
        let patience = std::time::Duration::from_secs(10);
        let connected = self.links.connected(&sandbox.id);
        tokio::time::timeout(patience, connected)
            .await
            .map_err(|_| {
                let message = "the agent in the sandbox is not connected";
                Failure::new(ErrorCode::AgentUnreachable, message).retry_after(2)
            })
    }

    /// Locks a sandbox against other changes until the guard is dropped.
    pub(crate) async fn hold(&self, id: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut held = self.held.lock().await;
            if held.len() > 1000 {
                held.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            held.entry(id.to_owned()).or_default().clone()
        };
        lock.lock_owned().await
    }
}

pub(crate) fn wrong_state(sandbox: &Sandbox, wanted: &str) -> Failure {
    let message = format!("the sandbox is {}, so it cannot {wanted}", sandbox.state);
    Failure::new(ErrorCode::SandboxWrongState, message)
        .about("sandboxId", sandbox.id.as_str())
        .about("state", sandbox.state.name())
}
