use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::NetworkMode;

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
    /// Sandboxes that are started before they are asked for.
    #[serde(default)]
    pub pools: Vec<PoolStats>,
}

/// Sandboxes of one kind that are started before they are asked for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolStats {
    /// Their template.
    pub template: String,
    /// What they reach.
    pub network: NetworkMode,
    /// The runtime, if it is not the engine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// How many there are to be.
    pub size: u32,
    /// How many there are.
    pub ready: u32,
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
    /// Versions of projects that retention did not keep, and whose content goes.
    pub dropped_versions: u64,
    /// Snapshots that nobody needed.
    pub cleaned_snapshots: u64,
    /// What only they had: pieces of files and directories.
    pub cleaned_objects: u64,
    /// Bytes that are free now and were not before, on the data directory's
    /// disk.
    pub freed_space: u64,
    /// Names of tenants whose store was not collected; the server's log says
    /// why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_tenants: Vec<String>,
}

/// How to clear away.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gc {
    /// Only says what would go from the store, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether everything in the store is looked at, or what is new since the
    /// last time; everything by default, and always by a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<bool>,
}

/// What collections of garbage are at.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcStatus {
    /// Whether one is under way.
    pub running: bool,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<GcCurrent>,
    /// The last one that ended, also if the server was started again since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<GcReport>,
}

/// How far a collection is. Tenants are collected one after the other.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcCurrent {
    /// When it began.
    pub started_at: String,
    /// Whether it changes nothing.
    pub dry_run: bool,
    /// Whether it looks at everything.
    pub full: bool,
    /// What it is at.
    pub phase: GcPhase,
    /// How many writers it waits for.
    pub writers: u64,
    /// Objects that were found to be needed.
    pub marked: u64,
    /// Objects that were looked at to see whether they are.
    pub seen: u64,
    /// Objects that were removed, or would be.
    pub removed: u64,
}

/// What a collection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GcPhase {
    /// Clearing away what has expired, and dropping versions that no project
    /// keeps.
    Dropping,
    /// Waiting for those who began to write before.
    Waiting,
    /// Looking for what is needed.
    Marking,
    /// Removing the rest.
    Removing,
}

/// What became of a collection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcReport {
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub finished_at: String,
    /// Whether it changed nothing.
    pub dry_run: bool,
    /// Whether it looked at everything.
    pub full: bool,
    /// What it did, or would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<GcResult>,
    /// Why it did not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
