use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// That the process is alive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The server's version.
    pub version: String,
}

/// Whether the server can do its work.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ready {
    /// Whether all of it is there.
    pub ready: bool,
    /// Each part.
    pub checks: Vec<ReadyCheck>,
}

/// A part that the server needs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReadyCheck {
    /// Which.
    pub name: String,
    /// Whether it works.
    pub ok: bool,
    /// Why not, or what it is.
    pub message: String,
}

/// Statistics of the server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SystemStats {
    /// Sandboxes by state.
    pub sandboxes: SandboxCounts,
    /// The machine, in percent.
    pub resources: SystemResources,
    /// Seconds since the server has started.
    pub uptime: u64,
    /// Agents that are connected.
    pub agents: u64,
}

/// How many sandboxes there are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SandboxCounts {
    /// In all.
    pub total: u64,
    /// Starting.
    pub starting: u64,
    /// Running.
    pub running: u64,
    /// Stopping.
    pub stopping: u64,
    /// Stopped.
    pub stopped: u64,
    /// Failed.
    pub error: u64,
}

/// Use of the machine, from 0 to 100.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemResources {
    /// The load of the last minute on its processors.
    pub cpu_usage: f64,
    /// Memory.
    pub memory_usage: f64,
    /// The disk of the data directory.
    pub disk_usage: f64,
}

/// What was cleared away.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcResult {
    /// Sandboxes that had expired, and containers that no sandbox had.
    pub cleaned_sandboxes: u64,
    /// Workspaces that no sandbox had.
    pub cleaned_workspaces: u64,
    /// Snapshots that nobody needed.
    pub cleaned_snapshots: u64,
    /// What only they had: pieces of files and directories.
    pub cleaned_objects: u64,
    /// Bytes that are free now and were not before, on the data directory's
    /// disk.
    pub freed_space: u64,
}
