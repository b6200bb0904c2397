//! The calls of an installation on the simulated engine.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use rustix::process::{Pid, Signal};
use tokio::sync::watch;

use super::process::{self, Mark};
use super::{CPUS, Call, Entry, SimEngine};
use crate::error::{Error, Result};
use crate::log_tail::LogTail;
use crate::runtime::{
    Container, ContainerId, ContainerState, ContainerStatus, Image, Logs, LogsQuery, PullProgress,
    RuntimeInfo, SandboxRuntime, Stats,
};
use crate::spec::{ContainerSpec, validate_image};

/// The number in the next id of a container. Ids are unique among all engines of
/// this process, because the processes of a container are found by its id.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// An installation on a [`SimEngine`].
#[derive(Debug)]
pub struct SimRuntime {
    engine: SimEngine,
    server: String,
}

impl SimRuntime {
    pub(super) fn new(engine: &SimEngine, server: &str) -> Self {
        Self {
            engine: engine.clone(),
            server: server.to_owned(),
        }
    }

    /// Freezes or thaws: sends the signal to every process and records the
    /// state.
    fn set_frozen(&self, id: &ContainerId, call: Call) -> Result<()> {
        let (signal, state) = match call {
            Call::Freeze => (Signal::STOP, ContainerState::Frozen),
            _ => (Signal::CONT, ContainerState::Running),
        };
        let mut engine = self.engine.state();
        engine.admit(Some(call), id.as_str())?;
        let entry = engine.existing(id)?;
        if !entry.runs() {
            let message = format!("the container `{id}` is not running");
            return Err(Error::Conflict { message });
        }
        entry.mark.signal_all(signal);
        entry.state = state;
        Ok(())
    }
}

#[async_trait]
impl SandboxRuntime for SimRuntime {
    async fn check(&self) -> Result<RuntimeInfo> {
        let mut state = self.engine.state();
        state.checks += 1;
        state.admit(None, "")?;
        drop(state);
        Ok(RuntimeInfo {
            engine: "sim 1".to_owned(),
            api_version: "1".to_owned(),
            kernel: String::new(),
            storage_driver: "none".to_owned(),
            runtimes: vec!["runc".to_owned()],
            live_restore: true,
            cgroup_version: 2,
            security_options: Vec::new(),
            cpus: CPUS,
            memory: 1 << 40,
            internet: None,
        })
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        spec.validate()?;
        self.engine.pass(Call::Create).await;
        let mut state = self.engine.state();
        state.admit(Some(Call::Create), &spec.sandbox)?;
        state.check_spec(spec)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("sim-{}-{number}", self.server);
        let entry = Entry {
            mark: Mark::new(&id),
            id: id.clone(),
            server: self.server.clone(),
            spec: spec.clone(),
            state: ContainerState::Created,
            exit_code: None,
            oom_killed: false,
            log: Vec::new(),
            starts: 0,
            ended: watch::Sender::new(0),
        };
        state.containers.insert(spec.sandbox.clone(), entry);
        Ok(ContainerId(id))
    }

    async fn start(&self, id: &ContainerId) -> Result<()> {
        self.engine.pass(Call::Start).await;
        let mut state = self.engine.state();
        state.admit(Some(Call::Start), id.as_str())?;
        let entry = state.existing(id)?;
        match entry.state {
            ContainerState::Running => return Ok(()),
            ContainerState::Frozen => {
                drop(state);
                return self.set_frozen(id, Call::Thaw);
            }
            _ => {}
        }
        let child = {
            let _context = self.engine.tasks().enter();
            process::spawn(&entry.spec, &entry.mark)?
        };
        entry.starts += 1;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        entry.mark.first = pid;
        entry.state = ContainerState::Running;
        entry.exit_code = None;
        entry.oom_killed = false;
        let (name, starts) = (entry.spec.sandbox.clone(), entry.starts);
        drop(state);
        process::follow(&self.engine, name, starts, child);
        Ok(())
    }

    async fn kill(&self, id: &ContainerId) -> Result<()> {
        self.engine.pass(Call::Kill).await;
        self.engine.state().admit(Some(Call::Kill), id.as_str())?;
        self.engine.kill_processes(id.as_str()).await;
        Ok(())
    }

    async fn remove(&self, id: &ContainerId) -> Result<()> {
        self.engine.pass(Call::Remove).await;
        self.engine.state().admit(Some(Call::Remove), id.as_str())?;
        self.engine.kill_processes(id.as_str()).await;
        let mut state = self.engine.state();
        if let Some(entry) = state.find(id.as_str()) {
            let name = entry.spec.sandbox.clone();
            state.containers.remove(&name);
        }
        Ok(())
    }

    async fn status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>> {
        self.engine.pass(Call::Status).await;
        let mut state = self.engine.state();
        state.admit(Some(Call::Status), id.as_str())?;
        Ok(state.find(id.as_str()).map(Entry::status))
    }

    async fn list(&self) -> Result<Vec<Container>> {
        let mut state = self.engine.state();
        state.admit(None, "")?;
        let ours = state.containers.values();
        let ours = ours.filter(|entry| entry.server == self.server);
        let listed = ours.map(|entry| Container {
            sandbox: entry.spec.sandbox.clone(),
            id: ContainerId(entry.id.clone()),
            state: entry.state,
        });
        Ok(listed.collect())
    }

    async fn logs(&self, id: &ContainerId, query: &LogsQuery) -> Result<Logs> {
        let mut state = self.engine.state();
        state.admit(None, id.as_str())?;
        let entry = state.existing(id)?;
        let lines = process::lines_between(&entry.log, query.since, query.until);
        let from = match query.tail {
            Some(tail) => lines.len().saturating_sub(tail as usize),
            None => 0,
        };
        let mut tail = LogTail::new(query.limit);
        for line in &lines[from..] {
            tail.push(line.clone());
        }
        Ok(tail.finish())
    }

    async fn stats(&self, id: &ContainerId) -> Result<Stats> {
        let mut state = self.engine.state();
        state.admit(None, id.as_str())?;
        let entry = state.existing(id)?;
        Ok(Stats {
            cpu_percent: 0.0,
            memory_usage: entry.mark.memory(),
            memory_limit: entry.spec.memory,
            rx_bytes: 0,
            tx_bytes: 0,
            pids: entry.mark.processes().len() as u64,
        })
    }

    async fn freeze(&self, id: &ContainerId) -> Result<()> {
        self.engine.pass(Call::Freeze).await;
        self.set_frozen(id, Call::Freeze)
    }

    async fn thaw(&self, id: &ContainerId) -> Result<()> {
        self.engine.pass(Call::Thaw).await;
        self.set_frozen(id, Call::Thaw)
    }

    async fn image(&self, name: &str) -> Result<Option<Image>> {
        validate_image(name)?;
        let mut state = self.engine.state();
        state.admit(None, "")?;
        Ok(state.images.get(name).cloned())
    }

    async fn pull(&self, name: &str) -> BoxStream<'static, Result<PullProgress>> {
        let pulled = validate_image(name).and_then(|()| {
            let mut state = self.engine.state();
            state.admit(None, "")?;
            let missing = || Error::NoSuchImage { name: name.into() };
            let image = state.registry.get(name).cloned().ok_or_else(missing)?;
            state.images.insert(name.to_owned(), image);
            Ok(PullProgress {
                layer: None,
                status: "Downloaded".to_owned(),
                current: None,
                total: None,
            })
        });
        stream::iter([pulled]).boxed()
    }

    async fn load(&self, archive: BoxStream<'static, io::Result<Bytes>>) -> Result<Vec<String>> {
        let pieces: Vec<Bytes> = archive
            .try_collect()
            .await
            .map_err(|error| Error::refused("archive", error.to_string()))?;
        let names = archived_names(&pieces.concat());
        if names.is_empty() {
            return Err(Error::refused("archive", "it has no manifest with names"));
        }
        let mut state = self.engine.state();
        state.admit(None, "")?;
        for name in &names {
            let image = Image {
                id: format!("sha256:{name}"),
                size: 1 << 20,
                created: None,
            };
            state.images.insert(name.clone(), image);
        }
        Ok(names)
    }

    async fn remove_image(&self, name: &str) -> Result<()> {
        validate_image(name)?;
        let mut state = self.engine.state();
        state.admit(None, "")?;
        let mut containers = state.containers.values();
        if containers.any(|entry| entry.spec.image == name) {
            let message = format!("a container uses the image `{name}`");
            return Err(Error::Conflict { message });
        }
        state.images.remove(name);
        Ok(())
    }

    async fn tear_down(&self) -> Result<()> {
        let left = self.list().await?.len();
        match left {
            0 => Ok(()),
            _ => Err(Error::Conflict {
                message: format!(
                    "this installation still has {left} containers; remove them first"
                ),
            }),
        }
    }
}

/// Returns the names in the manifest of an archive. The simulation has no images,
/// so it looks for the names only.
fn archived_names(archive: &[u8]) -> Vec<String> {
    const START: &[u8] = b"\"RepoTags\":[";
    let Some(at) = archive.windows(START.len()).position(|part| part == START) else {
        return Vec::new();
    };
    let list = &archive[at + START.len() - 1..];
    let mut lists = serde_json::Deserializer::from_slice(list).into_iter::<Vec<String>>();
    lists
        .next()
        .and_then(|names| names.ok())
        .unwrap_or_default()
}
