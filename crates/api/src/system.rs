use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::NetworkMode;

/// Response of the liveness check.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// Version of the server.
    pub version: String,
}

/// Response of the readiness check.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ready {
    /// Whether all checks passed.
    pub ready: bool,
    /// The checks.
    pub checks: Vec<ReadyCheck>,
}

/// The check of one component that the server needs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReadyCheck {
    /// Name of the component.
    pub name: String,
    /// Whether the component works.
    pub ok: bool,
    /// Why the check failed, or a description of the component.
    pub message: String,
}

/// Statistics of the server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SystemStats {
    /// Sandboxes by state.
    pub sandboxes: SandboxCounts,
    /// Usage of the machine, in percent.
    pub resources: SystemResources,
    /// Seconds since the server started.
    pub uptime: u64,
    /// Number of connected workspace agents.
    pub agents: u64,
    /// Pools of sandboxes that are started before a request needs them.
    #[serde(default)]
    pub pools: Vec<PoolStats>,
}

/// A warm pool: sandboxes of one kind that are started before a request needs
/// them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolStats {
    /// Template of the sandboxes.
    pub template: String,
    /// Network access of the sandboxes.
    pub network: NetworkMode,
    /// The OCI runtime, if it is not the container engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Desired number of sandboxes in the pool.
    pub size: u32,
    /// Current number of sandboxes in the pool.
    pub ready: u32,
}

/// Number of sandboxes by state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SandboxCounts {
    /// All sandboxes.
    pub total: u64,
    /// Sandboxes that are starting.
    pub starting: u64,
    /// Sandboxes that are running.
    pub running: u64,
    /// Sandboxes that are stopping.
    pub stopping: u64,
    /// Sandboxes that are stopped.
    pub stopped: u64,
    /// Sandboxes in the state `error`.
    pub error: u64,
}

/// Usage of the machine, in percent from 0 to 100.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemResources {
    /// Load average of the last minute, relative to the number of processors.
    pub cpu_usage: f64,
    /// Memory in use.
    pub memory_usage: f64,
    /// Usage of the disk with the data directory.
    pub disk_usage: f64,
}

/// Result of a garbage collection.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcResult {
    /// Number of deleted sandboxes that had expired, and of deleted containers
    /// without a sandbox.
    pub cleaned_sandboxes: u64,
    /// Number of deleted workspaces that had no row in the catalog, or whose
    /// deletion had been interrupted.
    pub cleaned_workspaces: u64,
    /// Number of versions of projects whose content was deleted because
    /// retention does not keep them.
    pub dropped_versions: u64,
    /// Number of deleted snapshots.
    pub cleaned_snapshots: u64,
    /// Number of deleted objects: parts of files and directories.
    pub cleaned_objects: u64,
    /// Bytes freed on the disk with the data directory.
    pub freed_space: u64,
    /// Names of tenants whose store could not be collected; the server's log
    /// has the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_tenants: Vec<String>,
}

/// Options of a garbage collection.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gc {
    /// Whether to only count the objects that would be deleted from the store.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether to examine the whole store instead of only the objects added
    /// since the last collection; true by default. A dry run always examines
    /// the whole store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<bool>,
}

/// Status of garbage collection.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcStatus {
    /// Whether a collection is running.
    pub running: bool,
    /// Progress of the running collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<GcCurrent>,
    /// The last collection that ended. A restart of the server does not reset
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<GcReport>,
}

/// Progress of a collection. Tenants are collected one after the other.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcCurrent {
    /// When the collection began.
    pub started_at: String,
    /// Whether the collection is a dry run.
    pub dry_run: bool,
    /// Whether the collection examines the whole store.
    pub full: bool,
    /// Current phase.
    pub phase: GcPhase,
    /// Number of writers that the collection waits for.
    pub writers: u64,
    /// Number of objects that the collection has marked as needed.
    pub marked: u64,
    /// Number of objects examined by the sweep.
    pub seen: u64,
    /// Number of objects that the collection has deleted, or would delete
    /// without the dry run.
    pub removed: u64,
}

/// Phase of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GcPhase {
    /// Deletes versions that retention does not keep.
    Dropping,
    /// Waits for the writers that began before the collection.
    Waiting,
    /// Marks the objects that a ref, a lease or a version needs.
    Marking,
    /// Deletes the other objects.
    Removing,
}

/// Report of a collection that ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcReport {
    /// When the collection began.
    pub started_at: String,
    /// When the collection ended.
    pub finished_at: String,
    /// Whether the collection was a dry run.
    pub dry_run: bool,
    /// Whether the collection examined the whole store.
    pub full: bool,
    /// Result of the collection. A dry run counts the objects that it would
    /// delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<GcResult>,
    /// Why the collection failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
