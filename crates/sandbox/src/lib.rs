//! Containers for the commands of agents: the promises of a runtime
//! ([`SandboxRuntime`]), the runtime on Docker ([`DockerRuntime`]), and, for
//! tests, a simulated runtime (feature `sim`) and the conformance suite that
//! both runtimes pass (feature `conformance`).
//!
//! Depends on `elevo-core`, the engine's API and the host's `iptables`. Never
//! communicates with the agent in a container, never reads a catalog or a
//! workspace, and never chooses the limits of a sandbox: a limit is set as
//! requested, or the call is rejected. [`HostLimits`] are the exception: a
//! limit that cannot be enforced is left out with a warning.

#[cfg(feature = "conformance")]
pub mod conformance;
mod docker;
mod error;
mod host_limits;
mod log_tail;
mod reconnect;
mod runtime;
#[cfg(feature = "sim")]
pub mod sim;
mod spec;

pub use docker::{DockerRuntime, DockerSettings};
pub use error::{Error, Result};
pub use host_limits::HostLimits;
pub use reconnect::Reconnecting;
pub use runtime::{
    Container, ContainerId, ContainerState, ContainerStatus, Image, Logs, LogsQuery, PullProgress,
    RuntimeInfo, SandboxRuntime, Stats,
};
pub use spec::{ContainerSpec, Mount, Network, User};
