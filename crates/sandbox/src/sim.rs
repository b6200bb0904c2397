//! A simulated container engine. **It isolates nothing and is for tests only**:
//! promises 1 to 5 of [`SandboxRuntime`](crate::SandboxRuntime) do not hold, and
//! no binary that ships may have the feature `sim`.
//!
//! A container is an entry in memory, and its command is an ordinary process of
//! this machine. The process runs as the user of the spec if the test is root,
//! otherwise as the user of the test, and gets paths of the host instead of the
//! paths of its mounts. So the real agent runs, and a server can be tested with
//! neither a container engine nor root.
//!
//! A [`SimEngine`] outlives the servers that use it, as Docker does. A server in
//! the same process uses a [`SimRuntime`]; a server in another process, which a
//! test may kill, connects a [`RemoteRuntime`] to a socket of the engine
//! ([`SimEngine::listen`]). Tests make the engine fail ([`SimEngine::fail`]), go
//! down ([`SimEngine::set_down`]) and lose containers ([`SimEngine::end`],
//! [`SimEngine::vanish`]).

mod process;
mod runtime;
mod socket;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use self::process::Mark;
use crate::error::{Error, Result};
use crate::runtime::{ContainerId, ContainerState, ContainerStatus, Image};
use crate::spec::ContainerSpec;

pub use self::runtime::SimRuntime;
pub use self::socket::RemoteRuntime;

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

/// A simulated engine. Clones are handles to the same engine; the processes of
/// its containers end when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct SimEngine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Runs the tasks that follow the processes of containers. The Tokio
    /// runtime of a server would not suffice: it ends with the server, but
    /// containers keep running. `None` only in `drop`.
    tasks: Option<Runtime>,
}

#[derive(Debug, Default)]
struct State {
    containers: BTreeMap<String, Entry>,
    images: BTreeMap<String, Image>,
    registry: BTreeMap<String, Image>,
    faults: Vec<Fault>,
    held: Vec<(Call, watch::Receiver<()>)>,
    down: bool,
    checks: u64,
}

#[derive(Debug)]
struct Fault {
    call: Call,
    sandbox: String,
    left: u32,
}

/// Makes calls of one kind wait as long as this value exists.
#[derive(Debug)]
pub struct Hold {
    _sender: watch::Sender<()>,
}

#[derive(Debug)]
struct Entry {
    id: String,
    server: String,
    spec: ContainerSpec,
    state: ContainerState,
    mark: Mark,
    exit_code: Option<i64>,
    oom_killed: bool,
    log: Vec<(SystemTime, Bytes)>,
    /// Number of starts of the command. The end of an earlier start is ignored.
    starts: u64,
    /// The number of the start whose end was recorded last.
    ended: watch::Sender<u64>,
}

impl SimEngine {
    /// Creates an engine that has these images.
    pub fn new<const N: usize>(images: [&str; N]) -> Self {
        let tasks = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let images = images.map(|name| (name.to_owned(), image(name)));
        let state = State {
            images: images.into(),
            ..State::default()
        };
        let shared = Shared {
            state: Mutex::new(state),
            tasks: Some(tasks.expect("a thread for the simulated engine")),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the runtime of the installation `server`.
    pub fn runtime(&self, server: &str) -> SimRuntime {
        SimRuntime::new(self, server)
    }

    /// Accepts calls of [`RemoteRuntime`]s of the installation `server` at a Unix
    /// socket, as long as a handle to the engine exists.
    pub fn listen(&self, server: &str, socket: &Path) -> std::io::Result<()> {
        let _context = self.tasks().enter();
        socket::listen(self, server, socket)
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

    /// Makes calls of this kind wait until the result is dropped.
    #[must_use = "calls wait until it is dropped"]
    pub fn hold(&self, call: Call) -> Hold {
        let (sender, released) = watch::channel(());
        self.state().held.push((call, released));
        Hold { _sender: sender }
    }

    /// Waits while a test holds calls of this kind.
    async fn pass(&self, call: Call) {
        let held = self.state().held.clone();
        for (_, mut released) in held.into_iter().filter(|(held, _)| *held == call) {
            // The value never changes; the wait ends with an error when the
            // test drops its `Hold`.
            let _ = released.changed().await;
        }
    }

    /// Takes the engine down or up. While the engine is down, every call fails
    /// as if no engine listened.
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

    /// Returns the engine's id of a container.
    pub fn id(&self, sandbox: &str) -> Option<String> {
        Some(self.state().find(sandbox)?.id.clone())
    }

    /// Returns the pid of the first process of a container that runs.
    pub fn pid(&self, sandbox: &str) -> Option<u32> {
        self.state().find(sandbox)?.status().pid
    }

    /// Lists the containers of all installations, by the ids of their
    /// sandboxes.
    pub fn containers(&self) -> Vec<String> {
        self.state().containers.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    fn tasks(&self) -> &Runtime {
        let tasks = self.shared.tasks.as_ref();
        tasks.expect("the engine is not being dropped")
    }

    /// Returns a handle that does not keep the engine and its processes alive.
    fn weak(&self) -> impl Fn() -> Option<Self> + Clone + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| Self { shared })
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
            entry.mark.first = None;
            entry.ended.send_replace(starts);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        for entry in state.containers.values().filter(|entry| entry.runs()) {
            entry.mark.signal_all(rustix::process::Signal::KILL);
        }
        // The last handle may be dropped in an async task, where a runtime cannot
        // wait for its threads.
        if let Some(tasks) = self.tasks.take() {
            tasks.shutdown_background();
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
            let why = format!(
                "{} were requested; this machine has {}",
                spec.cpu_millis,
                CPUS * 1000
            );
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
            pid: self
                .mark
                .first
                .map(|pid| pid.as_raw_nonzero().get().cast_unsigned()),
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
