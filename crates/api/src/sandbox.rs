mod change;

use std::collections::BTreeMap;

use crate::project::Sync;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ErrorBody;
pub use change::ChangeSandbox;

/// Request to create a sandbox.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSandbox {
    /// Name of the template.
    #[schema(min_length = 1, max_length = 255, example = "python:3.11")]
    pub template: String,
    /// Name of the sandbox, unique in its tenant. A request accepts it wherever it
    /// accepts the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// Environment variables of every process in the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
    /// Pairs that label the sandbox; at most 64. A key has 1 to 64 of the
    /// characters `A-Z a-z 0-9 . _ / -`, and a value at most 512 bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Seconds until the sandbox is deleted. Default: the server's setting,
    /// which is 3600 unless it is changed.
    #[serde(
        default,
        alias = "timeout_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub timeout_seconds: Option<u32>,
    /// Treatment of the workspace when the sandbox expires; `park` by default.
    #[serde(default, alias = "on_expiry", skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
    /// Resource limits.
    #[serde(default)]
    pub resources: Resources,
    /// Network access; the server's setting by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// An OCI runtime of the container engine, such as `runsc`; the server's
    /// setting by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Initial content of the workspace; empty by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceSource>,
}

/// Treatment of the workspace of a sandbox that expires: `park` parks the
/// workspace if it has changes that were neither merged nor snapshotted, and
/// deletes it otherwise; `delete` always deletes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnExpiry {
    /// The workspace is parked if it has changes that were neither merged nor
    /// snapshotted, and deleted otherwise.
    #[default]
    Park,
    /// The workspace is deleted.
    Delete,
}

/// Resource limits of a sandbox. A request beyond the allowed limits is
/// rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// Number of processors, such as `2` or `0.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2")]
    pub cpu: Option<String>,
    /// Memory, such as `512m` or `2g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2g")]
    pub memory: Option<String>,
    /// Maximum bytes written to the workspace and the home directory, such as
    /// `10g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10g")]
    pub disk: Option<String>,
    /// Maximum processes at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 8, maximum = 100000)]
    pub pids: Option<u32>,
}

/// Network access of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// No network.
    None,
    /// Public addresses only: no other sandbox, not the host and no private
    /// network.
    Internet,
}

impl NetworkMode {
    /// Name of the mode on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internet => "internet",
        }
    }
}

/// Initial content of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum WorkspaceSource {
    /// A snapshot, by its id or name.
    Snapshot(String),
    /// A directory on the server's machine; needs the scope `host`.
    Directory(String),
    /// The current content of the workspace of another sandbox, by the
    /// sandbox's id or name. The new sandbox has the disk limit of the other sandbox.
    Fork(String),
    /// A project: the sandbox gets a workspace on the project. The changes in the
    /// workspace can be merged into the project.
    Project(ProjectSource),
    /// A workspace that no sandbox uses, by its id or name. A parked workspace is
    /// resumed. If the sandbox fails to start, the workspace is as before.
    Existing(String),
}

/// The project of a sandbox's workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectSource {
    /// Id or name of the project.
    pub name: String,
    /// The agent that works in the workspace, by id or name; the key's agent by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The version of the project to start from; the head by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Whether the workspace is read-only. The workspace is always read-only if
    /// the policy does not let the agent write any path.
    #[serde(default)]
    pub read_only: bool,
    /// How the workspace is synchronised with the project.
    #[serde(default)]
    pub sync: Sync,
}

/// State of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// The container is being created, or its agent has not connected yet.
    Starting,
    /// Commands can run.
    Running,
    /// The container is being stopped.
    Stopping,
    /// The sandbox has its workspace but no processes.
    Stopped,
    /// An operation failed; the sandbox can be started, stopped or deleted.
    Error,
}

impl From<elevo_core::SandboxState> for SandboxState {
    fn from(state: elevo_core::SandboxState) -> Self {
        match state {
            elevo_core::SandboxState::Starting => Self::Starting,
            elevo_core::SandboxState::Running => Self::Running,
            elevo_core::SandboxState::Stopping => Self::Stopping,
            elevo_core::SandboxState::Stopped => Self::Stopped,
            elevo_core::SandboxState::Error => Self::Error,
        }
    }
}

impl From<SandboxState> for elevo_core::SandboxState {
    fn from(state: SandboxState) -> Self {
        match state {
            SandboxState::Starting => Self::Starting,
            SandboxState::Running => Self::Running,
            SandboxState::Stopping => Self::Stopping,
            SandboxState::Stopped => Self::Stopped,
            SandboxState::Error => Self::Error,
        }
    }
}

/// A sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// Id of the sandbox.
    #[schema(example = "sbx-abc123")]
    pub id: String,
    /// Id of the sandbox's workspace. Requests on workspaces find it if it is on
    /// a project, and when it is parked.
    pub workspace: String,
    /// Id of the project that the workspace merges into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The snapshot that the workspace started from, or was last refreshed to.
    /// Absent if the workspace started empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The sandbox or snapshot that the sandbox was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Name of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State of the sandbox.
    pub state: SandboxState,
    /// Why the sandbox is in its state, if an operation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the template.
    pub template: String,
    /// The agent that owns the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Resource limits, with defaults filled in.
    pub resources: Resources,
    /// Network access.
    pub network: NetworkMode,
    /// The OCI runtime, if it is not the container engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// When the sandbox was created.
    pub created_at: String,
    /// When the sandbox expires and is deleted.
    pub expires_at: String,
    /// Treatment of the workspace when the sandbox expires.
    pub on_expiry: OnExpiry,
    /// Pairs that label the sandbox.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// The sandbox or snapshot that a sandbox was created from. One of the fields
/// is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Id of the sandbox that was forked. That sandbox may no longer exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Id of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

/// A page of sandboxes, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SandboxPage {
    /// The sandboxes on this page.
    pub items: Vec<Sandbox>,
    /// Number of sandboxes on all pages.
    pub total: u64,
    /// Number of this page; 1 if the request has a `cursor`.
    pub page: u32,
    /// Maximum sandboxes per page.
    pub limit: u32,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Request to delete several sandboxes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchDelete {
    /// Ids or names of the sandboxes; at most 50.
    #[schema(max_items = 50)]
    pub ids: Vec<String>,
    /// Whether to park the workspaces. New sandboxes can resume parked
    /// workspaces until the workspaces expire.
    #[serde(default, alias = "keep_workspace")]
    pub keep_workspace: bool,
}

/// Result of a request to delete several sandboxes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BatchDeleted {
    /// The deleted sandboxes, by the ids or names of the request.
    pub succeeded: Vec<String>,
    /// Sandboxes that were not deleted.
    pub failed: Vec<Failed>,
}

/// An object for which an operation on several objects failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Failed {
    /// The id or name of the request, or the id of the object.
    pub id: String,
    /// Why the operation failed.
    pub error: ErrorBody,
}

/// Request to extend the lifetime of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extend {
    /// Seconds to add to the current expiry; at most 3600.
    #[schema(minimum = 1, maximum = 3600)]
    pub seconds: u32,
}

/// Request to fork a sandbox. A fork has the files of the sandbox, but not its
/// processes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fork {
    /// Number of forks; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 50)]
    pub count: Option<u32>,
    /// Name of the forks; a number is appended if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 90)]
    pub name: Option<String>,
    /// Environment variables of every process in the forks, in addition to
    /// those of the original sandbox, which they override.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
    /// Pairs that label the forks, in addition to those of the original
    /// sandbox, which they override.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Seconds until the forks are deleted. Default: the lifetime that the
    /// original sandbox was created with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_seconds: Option<u32>,
}

/// Result of a fork.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Forked {
    /// The forks that are running.
    pub succeeded: Vec<Sandbox>,
    /// The forks that failed. The server has deleted everything that it created
    /// for them.
    pub failed: Vec<Failed>,
}

/// Log of a sandbox's container.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    /// Lines of the log.
    pub logs: String,
    /// Whether the log has more lines than the response.
    pub truncated: bool,
}

/// Resource usage of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStats {
    /// Id of the sandbox.
    pub sandbox_id: String,
    /// Processor usage.
    pub cpu: StatsCpu,
    /// Memory usage.
    pub memory: StatsMemory,
    /// Disk usage.
    pub disk: StatsDisk,
    /// Network usage.
    pub network: StatsNetwork,
    /// Number of processes.
    pub processes: u64,
    /// When the usage was measured.
    pub updated_at: String,
}

/// Processor usage of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatsCpu {
    /// Processor usage in percent of the limit.
    pub usage: f64,
    /// Number of processors that the sandbox may use.
    pub limit: String,
}

/// Memory usage of a sandbox, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatsMemory {
    /// Memory in use.
    pub usage: u64,
    /// Maximum memory.
    pub limit: u64,
    /// Usage in percent of the limit.
    pub percent: f64,
}

/// Disk usage of a sandbox, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatsDisk {
    /// Bytes written; absent if the server cannot measure them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
    /// Maximum bytes written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Network usage of a sandbox, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatsNetwork {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}
