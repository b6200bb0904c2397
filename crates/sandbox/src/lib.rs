//! Containers that commands of agents run in: what a runtime promises
//! ([`SandboxRuntime`]), and the one on Docker ([`DockerRuntime`]).
//!
//! Depends on `elevo-core`, the engine's API and the host's `iptables`. Never
//! speaks with the agent in a container, never reads a catalog or a
//! workspace, and never decides which limits a sandbox gets: what is asked for
//! is set as it is, or refused.

mod docker;
mod error;
mod runtime;
mod spec;

pub use docker::{DockerRuntime, DockerSettings};
pub use error::{Error, Result};
pub use runtime::{
    Container, ContainerId, ContainerState, ContainerStatus, Image, Logs, LogsQuery, PullProgress,
    RuntimeInfo, SandboxRuntime, Stats,
};
pub use spec::{ContainerSpec, Mount, Network, User};
