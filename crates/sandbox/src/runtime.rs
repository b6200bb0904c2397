use std::fmt;
use std::io;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::Timestamp;
use futures::stream::BoxStream;

use crate::error::Result;
use crate::spec::ContainerSpec;

/// Runs sandboxes.
///
/// Every implementation keeps these promises for every spec; the tests of this
/// crate refer to them by number.
///
/// 1. A command does not run as root, has no capability and cannot gain one,
///    and runs under a seccomp filter.
/// 2. The root of a sandbox is read-only unless the spec makes it writable. A
///    command can write only to the mounts and tmpfs of the spec, and to memory
///    of the sandbox: `/dev/shm` and the volumes that the image declares.
/// 3. A command sees no process, IPC object or device of the host or of another
///    sandbox.
/// 4. A sandbox has at most the memory (without swap), processes and processor
///    time of the spec, and 30 terminals. A sandbox that exceeds a limit is
///    killed or slowed down, and no other sandbox is affected. A runtime that
///    does not use cgroups does not keep this promise.
/// 5. With [`Network::None`](crate::Network::None), a sandbox has only a
///    loopback interface. With [`Network::Internet`](crate::Network::Internet),
///    it cannot reach another sandbox, the host, or a private, link-local or
///    otherwise special address, except name resolvers on port 53.
/// 6. A limit is set as requested, or the call is rejected and has no effect.
/// 7. The standard output of a sandbox takes a bounded amount of disk space on
///    the host.
/// 8. `start`, `kill`, `remove`, `freeze`, `thaw` and `tear_down` are
///    idempotent.
/// 9. `list` returns the containers of this installation and no others.
/// 10. When `remove` returns, nothing of the container is left, volumes
///     included.
/// 11. A call ends within minutes even if the engine does not respond; only
///     `pull` takes as long as the registry does. Dropping a call is safe, but
///     the call may still take effect.
/// 12. When `tear_down` returns, nothing of this installation is left on the
///     host except images. The call is rejected while a container exists. The
///     next `create` creates the deleted networks and rules again.
#[async_trait]
pub trait SandboxRuntime: fmt::Debug + Send + Sync {
    /// Returns the properties of the engine, and repairs the network rules that
    /// sandboxes rely on.
    async fn check(&self) -> Result<RuntimeInfo>;

    /// Returns whether the engine sees a directory at this path of the caller, so
    /// that it can mount it; `None` if the engine does not tell.
    async fn sees(&self, path: &Path) -> Result<Option<bool>> {
        let _ = path;
        Ok(None)
    }

    /// Creates a container without starting it. The container is named after
    /// the sandbox; if the name is taken, the call fails with a
    /// [`Conflict`](crate::Error::Conflict).
    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId>;

    /// Starts a container, and returns when its command runs.
    async fn start(&self, id: &ContainerId) -> Result<()>;

    /// Kills all processes of a container, and returns when they are gone. A
    /// missing container is not an error.
    async fn kill(&self, id: &ContainerId) -> Result<()>;

    /// Kills and deletes a container, and returns when it is gone. A missing
    /// container is not an error.
    async fn remove(&self, id: &ContainerId) -> Result<()>;

    /// Returns the status of a container; `None` if it does not exist.
    async fn status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>>;

    /// Lists the containers of this installation, running or not.
    async fn list(&self) -> Result<Vec<Container>>;

    /// Returns the standard output and standard error of the container's
    /// command.
    async fn logs(&self, id: &ContainerId, query: &LogsQuery) -> Result<Logs>;

    /// Returns the resources that a container uses. The call takes a quarter of
    /// a second, because it measures processor time over this period.
    async fn stats(&self, id: &ContainerId) -> Result<Stats>;

    /// Pauses all processes of a container.
    async fn freeze(&self, id: &ContainerId) -> Result<()>;

    /// Resumes the processes of a frozen container.
    async fn thaw(&self, id: &ContainerId) -> Result<()>;

    /// Returns an image on this machine; `None` if the image is missing.
    async fn image(&self, name: &str) -> Result<Option<Image>>;

    /// Fetches an image from its registry. The stream ends with an error, or
    /// when the image is complete; dropping the stream cancels the pull.
    async fn pull(&self, name: &str) -> BoxStream<'static, Result<PullProgress>>;

    /// Adds the images of an archive to this machine, and returns their names;
    /// the archive is an uncompressed tar as `docker save` writes it. An image on
    /// this machine with one of these names loses the name. An archive that the
    /// engine cannot read is [`Refused`](crate::Error::Refused).
    async fn load(&self, archive: BoxStream<'static, io::Result<Bytes>>) -> Result<Vec<String>>;

    /// Deletes an image from this machine. A missing image is not an error; an
    /// image that a container uses is a [`Conflict`](crate::Error::Conflict).
    async fn remove_image(&self, name: &str) -> Result<()>;

    /// Deletes the networks and rules of this installation on the host. Fails
    /// with a [`Conflict`](crate::Error::Conflict) while a container exists,
    /// running or not.
    async fn tear_down(&self) -> Result<()>;
}

/// The id that the engine gave to a container, or the name of the container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct ContainerId(pub(crate) String);

impl ContainerId {
    /// Creates an id from a stored id or a container name; `None` if the text
    /// is neither.
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

/// Properties of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct RuntimeInfo {
    /// Name and version of the engine, such as `docker 20.10.24`.
    pub engine: String,
    /// The version of the engine's API in use.
    pub api_version: String,
    /// The version of the kernel.
    pub kernel: String,
    /// The storage driver of images and writable roots, such as `overlay2`.
    pub storage_driver: String,
    /// The OCI runtimes that a spec may name, sorted.
    pub runtimes: Vec<String>,
    /// Whether containers keep running while the engine restarts.
    pub live_restore: bool,
    /// The version of cgroups: 1 or 2.
    pub cgroup_version: u8,
    /// The security options that the engine reports, such as
    /// `name=seccomp,profile=default`.
    pub security_options: Vec<String>,
    /// Processors of the machine.
    pub cpus: u32,
    /// Bytes of memory of the machine.
    pub memory: u64,
    /// Why sandboxes cannot have the network
    /// [`Internet`](crate::Network::Internet); `None` if they can.
    pub internet: Option<String>,
}

impl RuntimeInfo {
    /// Returns the names of the confinement mechanisms that the engine reports
    /// as active, such as `seccomp`, `apparmor`, `selinux` and `userns`.
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

/// The state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub enum ContainerState {
    /// The container was created and never started.
    Created,
    /// The command of the container runs.
    Running,
    /// All processes of the container are paused.
    Frozen,
    /// The command of the container has ended.
    Exited,
    /// The container is being deleted.
    Removing,
}

/// The status of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct ContainerStatus {
    /// The state of the container.
    pub state: ContainerState,
    /// The PID, on the host, of the container's first process while it runs.
    pub pid: Option<u32>,
    /// The exit code of the command after its end: 128 plus the signal number
    /// if a signal killed the command.
    pub exit_code: Option<i64>,
    /// Whether the kernel killed a process because the container ran out of
    /// memory.
    pub oom_killed: bool,
    /// The engine's message about a start that failed.
    pub error: Option<String>,
}

/// An entry of [`SandboxRuntime::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct Container {
    /// The id of the sandbox that the container was created for.
    pub sandbox: String,
    /// The id of the container.
    pub id: ContainerId,
    /// The state of the container.
    pub state: ContainerState,
}

/// Selects a part of the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogsQuery {
    /// Maximum number of lines, counted from the end; all lines if absent.
    pub tail: Option<u32>,
    /// Only output from this second on.
    pub since: Option<Timestamp>,
    /// Only output before this second.
    pub until: Option<Timestamp>,
    /// Maximum number of bytes, counted from the end.
    pub limit: usize,
}

/// The output of a command on both streams. Lines of one stream are in order.
/// Lines of different streams are in the order in which the engine read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Whole lines, unless a single line exceeds the limit.
    pub bytes: Bytes,
    /// Whether the beginning was cut off because of the limit.
    pub truncated: bool,
}

/// The resources that a container uses.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct Stats {
    /// Processor time in percent of one processor.
    pub cpu_percent: f64,
    /// Bytes of memory, without cached files that the kernel could evict.
    pub memory_usage: u64,
    /// Maximum bytes of memory.
    pub memory_limit: u64,
    /// Bytes that the container's network interfaces received.
    pub rx_bytes: u64,
    /// Bytes that the container's network interfaces sent.
    pub tx_bytes: u64,
    /// Number of processes and threads.
    pub pids: u64,
}

/// An image on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct Image {
    /// The hash of the image's content.
    pub id: String,
    /// Size in bytes.
    pub size: u64,
    /// Time at which the image was built, as RFC 3339, if the image has it.
    pub created: Option<String>,
}

/// A step of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct PullProgress {
    /// The layer of this step; `None` if the step is not about one layer.
    pub layer: Option<String>,
    /// The state of the step, such as `Downloading`.
    pub status: String,
    /// Bytes processed, if the engine counts them.
    pub current: Option<u64>,
    /// Total bytes, if known.
    pub total: Option<u64>,
}
