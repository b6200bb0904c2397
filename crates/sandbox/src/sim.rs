//! A simulated container engine for tests.
//!
//! A container is an ordinary process of this machine: the command of the spec,
//! with the paths of mounts replaced by the paths on the host. If the test runs
//! as root, the process runs as the user of the spec. So the real agent runs,
//! and a server can be tested without a container engine. **Nothing is
//! isolated**: promises 1 to 5 do not hold, and no released binary may have the
//! feature `sim`.
//!
//! A [`SimEngine`] outlives the servers that use it, as Docker does. Tests make
//! it fail ([`SimEngine::fail`]), go down ([`SimEngine::set_down`]) and lose
//! containers ([`SimEngine::end`], [`SimEngine::vanish`]).

mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

use self::process::Mark;
use crate::error::{Error, Result};
use crate::log_tail::LogTail;
use crate::runtime::{
    Container, ContainerId, ContainerState, ContainerStatus, Image, Logs, LogsQuery, PullProgress,
    RuntimeInfo, SandboxRuntime, Stats,
};
use crate::spec::{ContainerSpec, validate_image};

/// The address of the engine in error messages.
const HOST: &str = "sim";
/// Processors that the engine claims to have.
const CPUS: u32 = 4;
/// Maximum bytes of output that are kept for each container.
const LOG_BYTES: usize = 2 << 20;

/// A call that a test can make fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`SandboxRuntime::create`].
    Create,
    /// [`SandboxRuntime::start`].
    Start,
    /// [`SandboxRuntime::kill`].
    Kill,
    /// [`SandboxRuntime::remove`].
    Remove,
    /// [`SandboxRuntime::status`].
    Status,
    /// [`SandboxRuntime::freeze`].
    Freeze,
    /// [`SandboxRuntime::thaw`].
    Thaw,
}

/// A simulated engine. Clones are handles to the same engine. The processes of
/// its containers are killed when the last handle is dropped.
#[derive(Clone, Debug, Default)]
pub struct SimEngine {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    containers: BTreeMap<String, Entry>,
    images: BTreeMap<String, Image>,
    registry: BTreeMap<String, Image>,
    faults: Vec<Fault>,
    down: bool,
    checks: u64,
    next_id: u64,
}

#[derive(Debug)]
struct Fault {
    call: Call,
    sandbox: String,
    left: u32,
}

#[derive(Debug)]
struct Entry {
    id: String,
    server: String,
    spec: ContainerSpec,
    state: ContainerState,
    mark: Mark,
    pid: Option<u32>,
    exit_code: Option<i64>,
    oom_killed: bool,
    log: Vec<(SystemTime, Bytes)>,
    /// Number of starts of the command. The end of an earlier start is ignored.
    starts: u64,
    /// The number of the start whose end was recorded last.
    ended: watch::Sender<u64>,
}

/// An installation on a [`SimEngine`].
#[derive(Debug)]
pub struct SimRuntime {
    engine: SimEngine,
    server: String,
}

impl SimEngine {
    /// Creates an engine that has these images.
    pub fn new<const N: usize>(images: [&str; N]) -> Self {
        let engine = Self::default();
        for name in images {
            let image = image(name);
            engine.state().images.insert(name.to_owned(), image);
        }
        engine
    }

    /// Returns the runtime of the installation `server`.
    pub fn runtime(&self, server: &str) -> SimRuntime {
        SimRuntime {
            engine: self.clone(),
            server: server.to_owned(),
        }
    }

    /// Adds an image to the registry that `pull` reads.
    pub fn publish(&self, name: &str) {
        self.state().registry.insert(name.to_owned(), image(name));
    }

    /// Makes the next `times` calls of this kind for this sandbox fail.
    pub fn fail(&self, call: Call, sandbox: &str, times: u32) {
        self.state().faults.push(Fault {
            call,
            sandbox: sandbox.to_owned(),
            left: times,
        });
    }

    /// Takes the engine down or up. While the engine is down, every call fails
    /// as if no process listened on its socket.
    pub fn set_down(&self, down: bool) {
        self.state().down = down;
    }

    /// The number of calls of [`SandboxRuntime::check`].
    pub fn checks(&self) -> u64 {
        self.state().checks
    }

    /// Kills the processes of a container, as a crash or the kernel would.
    pub async fn end(&self, sandbox: &str, oom_killed: bool) {
        if let Some(entry) = self.state().find_mut(sandbox) {
            entry.oom_killed = oom_killed;
        }
        self.kill_processes(sandbox).await;
    }

    /// Removes a container without notifying its installation.
    pub async fn vanish(&self, sandbox: &str) {
        self.kill_processes(sandbox).await;
        self.state().containers.remove(sandbox);
    }

    /// Returns the path on this machine of a path in a container.
    pub fn path(&self, sandbox: &str, path: &str) -> Option<PathBuf> {
        let state = self.state();
        Some(process::on_host(&state.find(sandbox)?.spec, path))
    }

    /// Lists the containers of all installations, by the ids of their
    /// sandboxes.
    pub fn containers(&self) -> Vec<String> {
        self.state().containers.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the processes of a container and waits until their end is
    /// recorded.
    async fn kill_processes(&self, name: &str) {
        let (mark, starts, mut ended) = match self.state().find(name) {
            Some(entry) if entry.runs() => {
                (entry.mark.clone(), entry.starts, entry.ended.subscribe())
            }
            _ => return,
        };
        mark.kill_all().await;
        // An error means that the container was removed: the entry of the
        // container owns the sender.
        let _ = ended.wait_for(|end| *end >= starts).await;
    }

    fn note_output(&self, name: &str, piece: Bytes) {
        if let Some(entry) = self.state().containers.get_mut(name) {
            entry.log.push((process::now(), piece));
            let mut held: usize = entry.log.iter().map(|(_, piece)| piece.len()).sum();
            while held > LOG_BYTES {
                held -= entry.log.remove(0).1.len();
            }
        }
    }

    fn note_end(&self, name: &str, starts: u64, code: i64) {
        let mut state = self.state();
        let Some(entry) = state.containers.get_mut(name) else {
            return;
        };
        if entry.starts == starts {
            entry.state = ContainerState::Exited;
            entry.exit_code = Some(code);
            entry.pid = None;
            entry.ended.send_replace(starts);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        for entry in state.containers.values().filter(|entry| entry.runs()) {
            entry.mark.signal_all(rustix::process::Signal::KILL);
        }
    }
}

impl State {
    /// Fails if the engine is down or a test has injected a fault.
    fn admit(&mut self, call: Option<Call>, name: &str) -> Result<()> {
        if self.down {
            let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            return Err(Error::Unreachable {
                host: HOST.to_owned(),
                source: source.into(),
            });
        }
        let sandbox = self.find(name).map(|entry| entry.spec.sandbox.clone());
        let name = sandbox.as_deref().unwrap_or(name);
        let planted = self
            .faults
            .iter_mut()
            .find(|fault| Some(fault.call) == call && fault.sandbox == name && fault.left > 0);
        match planted {
            Some(fault) => {
                fault.left -= 1;
                Err(Error::failed("an injected fault"))
            }
            None => Ok(()),
        }
    }

    /// Returns a container by its id or its name.
    fn find(&self, name: &str) -> Option<&Entry> {
        let by_id = || self.containers.values().find(|entry| entry.id == name);
        self.containers.get(name).or_else(by_id)
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Entry> {
        let name = self.find(name)?.spec.sandbox.clone();
        self.containers.get_mut(&name)
    }

    fn existing(&mut self, id: &ContainerId) -> Result<&mut Entry> {
        let missing = || Error::NoSuchContainer { id: id.0.clone() };
        self.find_mut(id.as_str()).ok_or_else(missing)
    }

    fn check_spec(&self, spec: &ContainerSpec) -> Result<()> {
        if spec.cpu_millis > CPUS * 1000 {
            let why = format!("{}; this machine has {}", spec.cpu_millis, CPUS * 1000);
            return Err(Error::refused("cpu_millis", why));
        }
        if let Some(name) = spec.runtime.as_ref().filter(|name| *name != "runc") {
            return Err(Error::NoSuchRuntime { name: name.clone() });
        }
        if !self.images.contains_key(&spec.image) {
            let name = spec.image.clone();
            return Err(Error::NoSuchImage { name });
        }
        let missing = spec.mounts.iter().find(|mount| !mount.host.exists());
        if let Some(mount) = missing {
            let why = format!("{} does not exist", mount.host.display());
            return Err(Error::refused("mounts", why));
        }
        match self.containers.contains_key(&spec.sandbox) {
            true => Err(Error::Conflict {
                message: format!("the name `{}` is taken", spec.sandbox),
            }),
            false => Ok(()),
        }
    }
}

impl Entry {
    fn runs(&self) -> bool {
        matches!(self.state, ContainerState::Running | ContainerState::Frozen)
    }

    fn status(&self) -> ContainerStatus {
        ContainerStatus {
            state: self.state,
            pid: self.pid,
            exit_code: self
                .exit_code
                .filter(|_| self.state == ContainerState::Exited),
            oom_killed: self.oom_killed,
            error: None,
        }
    }
}

fn image(name: &str) -> Image {
    Image {
        id: format!("sim:{name}"),
        size: 1 << 20,
        created: None,
    }
}

impl SimRuntime {
    /// Freezes or thaws a container: sends the signal to every process and
    /// records the state.
    fn set_frozen(&self, id: &ContainerId, call: Call) -> Result<()> {
        let (signal, state) = match call {
            Call::Freeze => (rustix::process::Signal::STOP, ContainerState::Frozen),
            _ => (rustix::process::Signal::CONT, ContainerState::Running),
        };
        let mut engine = self.engine.state();
        engine.admit(Some(call), id.as_str())?;
        let entry = engine.existing(id)?;
        if !entry.runs() {
            let message = format!("the container `{id}` does not run");
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
        let mut state = self.engine.state();
        state.admit(Some(Call::Create), &spec.sandbox)?;
        state.check_spec(spec)?;
        state.next_id += 1;
        let id = format!("sim-{}-{}", self.server, state.next_id);
        let entry = Entry {
            mark: Mark::new(&id),
            id: id.clone(),
            server: self.server.clone(),
            spec: spec.clone(),
            state: ContainerState::Created,
            pid: None,
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
        let child = process::spawn(&entry.spec, &entry.mark)?;
        entry.starts += 1;
        entry.pid = child.id();
        entry.state = ContainerState::Running;
        entry.exit_code = None;
        entry.oom_killed = false;
        let (name, starts) = (entry.spec.sandbox.clone(), entry.starts);
        drop(state);
        process::follow(&self.engine, name, starts, child);
        Ok(())
    }

    async fn kill(&self, id: &ContainerId) -> Result<()> {
        self.engine.state().admit(Some(Call::Kill), id.as_str())?;
        self.engine.kill_processes(id.as_str()).await;
        Ok(())
    }

    async fn remove(&self, id: &ContainerId) -> Result<()> {
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
        self.set_frozen(id, Call::Freeze)
    }

    async fn thaw(&self, id: &ContainerId) -> Result<()> {
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
