//! The server itself: whether it can work, how busy it is.

use std::time::{Duration, Instant};

use elevo_api as api;
use elevo_api::Scope;
use elevo_core::SandboxState;

use crate::app::{App, Principal};
use crate::clock;
use crate::failure::{Result, chain};

/// How long an answer of the catalog and the engine holds.
const PROBE: Duration = Duration::from_secs(2);

/// Answers of the catalog and the engine, and whether they are good ones.
#[derive(Clone, Debug)]
pub(super) struct Probed {
    at: Instant,
    catalog: (bool, String),
    engine: (bool, String),
}

impl App {
    /// Returns whether everything that is needed is there. The catalog and the
    /// engine are asked at most once in [`PROBE`], however many ask here.
    pub(crate) async fn ready(&self) -> api::Ready {
        let Probed {
            catalog, engine, ..
        } = self.probe().await;
        let stopping = match self.is_stopping() {
            true => (false, "about to end".into()),
            false => (true, "takes requests".into()),
        };
        let disk = match self.room.check() {
            Ok(()) => (true, "has room".into()),
            Err(failure) => (false, failure.message),
        };
        let checks = [
            ("catalog", catalog),
            ("engine", engine),
            ("disk", disk),
            ("server", stopping),
        ];
        let checks = checks.map(|(name, (ok, message))| api::ReadyCheck {
            name: name.into(),
            ok,
            message,
        });
        // Projects, merges, reviews and workspaces need no container engine, and a
        // full disk is left by requests.
        let spared = ["engine", "disk"];
        let needed = checks.iter();
        let needed = needed.filter(|check| !spared.contains(&check.name.as_str()));
        api::Ready {
            ready: needed.clone().all(|check| check.ok),
            checks: checks.into(),
        }
    }

    async fn probe(&self) -> Probed {
        let mut probed = self.probed.lock().await;
        if let Some(known) = probed.as_ref().filter(|known| known.at.elapsed() < PROBE) {
            return known.clone();
        }
        let catalog = match self.catalog.check().await {
            Ok(()) => (true, "answers".into()),
            Err(error) => (false, chain(&error)),
        };
        let engine = match self.runtime.check().await {
            Ok(info) => (true, info.engine),
            Err(error) => (false, chain(&error)),
        };
        let new = Probed {
            at: clock::instant(),
            catalog,
            engine,
        };
        probed.insert(new).clone()
    }

    pub(crate) async fn system_stats(&self, who: &Principal) -> Result<api::SystemStats> {
        who.needs(Scope::System)?;
        Ok(api::SystemStats {
            sandboxes: self.counts().await?,
            resources: self.resources(),
            uptime: self.started.elapsed().as_secs(),
            agents: self.links.count() as u64,
            pools: self.pools(),
        })
    }

    pub(crate) async fn counts(&self) -> Result<api::SandboxCounts> {
        let counts = self.catalog.count_by_state(None).await?;
        let of = |state| counts.get(&state).copied().unwrap_or_default();
        Ok(api::SandboxCounts {
            total: counts.values().sum(),
            starting: of(SandboxState::Starting),
            running: of(SandboxState::Running),
            stopping: of(SandboxState::Stopping),
            stopped: of(SandboxState::Stopped),
            error: of(SandboxState::Error),
        })
    }

    fn resources(&self) -> api::SystemResources {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let info = rustix::system::sysinfo();
        let load = info.loads[0] as f64 / 65536.0;
        let memory = (info.totalram.max(1) - info.freeram) as f64 / info.totalram.max(1) as f64;
        let (total, free) = self.disk();
        api::SystemResources {
            cpu_usage: (load / processors * 100.0).min(100.0),
            memory_usage: memory * 100.0,
            disk_usage: (total - free) as f64 * 100.0 / total.max(1) as f64,
        }
    }

    /// How full the data directory's disk is.
    pub(crate) fn disk_used(&self) -> Option<f64> {
        let (total, free) = self.disk();
        (total > 0).then(|| (total - free) as f64 / total as f64)
    }

    /// Bytes of the data directory's disk: in all, and free.
    pub(crate) fn disk(&self) -> (u64, u64) {
        self.room.bytes()
    }
}
