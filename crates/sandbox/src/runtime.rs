use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::Timestamp;
use futures::stream::BoxStream;

use crate::error::Result;
use crate::spec::ContainerSpec;

/// Something that runs sandboxes.
///
/// Every implementation keeps these promises, whatever it is asked for; the
/// tests of this crate name them by number.
///
/// 1. What runs is not root, has no capability, can get none, and is under a
///    seccomp filter.
/// 2. Its root is read-only unless the spec says otherwise. What it can write
///    to is the mounts and tmpfs of the spec, and memory of its own:
///    `/dev/shm`, and what the image declares as a volume.
/// 3. It sees no process, no IPC and no device of the host or of another
///    sandbox.
/// 4. It has at most the memory (without swap), processes and processor time
///    of the spec, and 30 terminals. One that takes more is stopped or slowed
///    alone. A runtime that leaves cgroups alone does not keep this.
/// 5. With [`Network::None`](crate::Network::None) it has a loopback interface
///    and no other. With [`Network::Internet`](crate::Network::Internet) it
///    reaches no other sandbox, not the host, and no private, link-local or
///    otherwise special address; resolvers of names excepted, on port 53.
/// 6. A limit is set as asked, or the call is refused and nothing is left.
/// 7. What it writes to standard output takes a bounded room on the host.
/// 8. `start`, `kill`, `remove`, `freeze`, `thaw` and `tear_down` can be
///    repeated: what is already so is no error.
/// 9. `list` shows what this installation made, and nothing that another did.
/// 10. When `remove` returns, nothing of the container is left, volumes
///     included.
/// 11. A call ends within minutes even if the engine does not answer; only
///     `pull` goes on for as long as the registry takes. Dropping a call is
///     safe; it may still have its effect.
/// 12. When `tear_down` returns, nothing of this installation is left on the
///     host but images. It is refused while there is a container, and the next
///     `create` makes again what it needs.
#[async_trait]
pub trait SandboxRuntime: fmt::Debug + Send + Sync {
    /// Asks the engine who it is, and looks that what sandboxes rely on is
    /// still in place.
    async fn check(&self) -> Result<RuntimeInfo>;

    /// Makes a container and does not start it. Its name is that of the
    /// sandbox: a second one is a [`Conflict`](crate::Error::Conflict).
    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId>;

    /// Starts it, and returns when its command runs.
    async fn start(&self, id: &ContainerId) -> Result<()>;

    /// Kills everything in it, and returns when that has gone. One that is not
    /// there is no error.
    async fn kill(&self, id: &ContainerId) -> Result<()>;

    /// Kills and removes it, and returns when it has gone. One that is not
    /// there is no error.
    async fn remove(&self, id: &ContainerId) -> Result<()>;

    /// How it is; `None` if it is not there.
    async fn status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>>;

    /// All containers of this installation, running or not.
    async fn list(&self) -> Result<Vec<Container>>;

    /// What its command wrote to standard output and standard error.
    async fn logs(&self, id: &ContainerId, query: &LogsQuery) -> Result<Logs>;

    /// What it uses now. Takes a quarter of a second, over which processor
    /// time is measured.
    async fn stats(&self, id: &ContainerId) -> Result<Stats>;

    /// Stops all its processes where they are.
    async fn freeze(&self, id: &ContainerId) -> Result<()>;

    /// Lets them go on.
    async fn thaw(&self, id: &ContainerId) -> Result<()>;

    /// An image of this machine; `None` if it is not there.
    async fn image(&self, name: &str) -> Result<Option<Image>>;

    /// Fetches an image from its registry. Ends with an error, or when it is
    /// there; dropping the stream stops it.
    async fn pull(&self, name: &str) -> BoxStream<'static, Result<PullProgress>>;

    /// Removes an image from this machine. One that is not there is no error;
    /// one that a container uses is a [`Conflict`](crate::Error::Conflict).
    async fn remove_image(&self, name: &str) -> Result<()>;

    /// Removes what this installation has on the host beside containers:
    /// networks, rules. A [`Conflict`](crate::Error::Conflict) while there is a
    /// container, running or not.
    async fn tear_down(&self) -> Result<()>;
}

/// The engine's name for a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId(pub(crate) String);

impl ContainerId {
    /// An id as it was kept, or the name of a container. `None` if it can be
    /// neither.
    pub fn new(id: impl Into<String>) -> Option<Self> {
        let id = id.into();
        crate::spec::is_container_name(&id).then_some(Self(id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the engine is and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Its name and version: `docker 20.10.24`.
    pub engine: String,
    /// The version of its API that is spoken.
    pub api_version: String,
    /// The version of the kernel.
    pub kernel: String,
    /// Where images and writable roots are kept: `overlay2`.
    pub storage_driver: String,
    /// The OCI runtimes that a spec may name, sorted.
    pub runtimes: Vec<String>,
    /// Whether containers go on while the engine is restarted.
    pub live_restore: bool,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// As the engine tells them: `name=seccomp,profile=default`.
    pub security_options: Vec<String>,
    /// Processors that it sees.
    pub cpus: u32,
    /// Bytes of memory that it sees.
    pub memory: u64,
    /// Why sandboxes cannot have the network
    /// [`Internet`](crate::Network::Internet), if they cannot.
    pub internet: Option<String>,
}

impl RuntimeInfo {
    /// Returns the names of the means by which the engine says that it confines
    /// containers, such as `seccomp`, `apparmor`, `selinux` and `userns`.
    pub fn confinement(&self) -> Vec<&str> {
        let names = self.security_options.iter().filter_map(|option| {
            let name = option
                .split(',')
                .find_map(|part| part.strip_prefix("name="));
            name.filter(|_| !option.contains("profile=unconfined"))
        });
        names.collect()
    }
}

/// Where a container is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// Made, never started.
    Created,
    /// Its command runs.
    Running,
    /// Its command runs and is stopped where it was.
    Frozen,
    /// Its command has ended.
    Exited,
    /// It is going away.
    Removing,
}

/// How a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStatus {
    /// Where it is in its life.
    pub state: ContainerState,
    /// The number of its first process on the host, while it runs.
    pub pid: Option<u32>,
    /// What its command ended with, if it has: 128 and the signal's number
    /// if by a signal.
    pub exit_code: Option<i64>,
    /// Whether something in it was killed for want of memory.
    pub oom_killed: bool,
    /// What the engine says about a start that failed.
    pub error: Option<String>,
}

/// One line of [`SandboxRuntime::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The sandbox it was made for.
    pub sandbox: String,
    /// Its id.
    pub id: ContainerId,
    /// Where it is in its life.
    pub state: ContainerState,
}

/// Which part of the logs is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogsQuery {
    /// The last so many lines; all if not given.
    pub tail: Option<u32>,
    /// Only what was written in this second or later.
    pub since: Option<Timestamp>,
    /// Only what was written before this second.
    pub until: Option<Timestamp>,
    /// At most so many bytes: the last ones.
    pub limit: usize,
}

/// What a command wrote to both streams. Lines of one stream are in order;
/// those of two come as the engine happened to read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Whole lines, unless one alone is longer than the limit.
    pub bytes: Bytes,
    /// Whether the limit cut something off at the front.
    pub truncated: bool,
}

/// What a container uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Processor time; 100 is one processor.
    pub cpu_percent: f64,
    /// Bytes of memory, without the files that the kernel could drop.
    pub memory_usage: u64,
    /// Bytes of memory that it may have.
    pub memory_limit: u64,
    /// Bytes that its network interfaces received.
    pub rx_bytes: u64,
    /// Bytes that they sent.
    pub tx_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
}

/// An image on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The hash that names its content.
    pub id: String,
    /// Bytes that it takes.
    pub size: u64,
    /// When it was built, as RFC 3339, if it says so.
    pub created: Option<String>,
}

/// A step of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullProgress {
    /// The layer that this is about, if it is about one.
    pub layer: Option<String>,
    /// What is done: `Downloading`.
    pub status: String,
    /// Bytes done, where they are counted.
    pub current: Option<u64>,
    /// Bytes in all, where that is known.
    pub total: Option<u64>,
}
