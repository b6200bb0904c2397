use std::collections::BTreeMap;

use crate::project::Sync;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ErrorBody;

/// A wish for a sandbox.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSandbox {
    /// The template it starts from.
    #[schema(min_length = 1, max_length = 255, example = "python:3.11")]
    pub template: String,
    /// What it is called; need not be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// Variables of everything that runs in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
    /// Seconds after which it is removed; 3600 by default.
    #[serde(
        default,
        alias = "timeout_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub timeout_seconds: Option<u32>,
    /// The fate of its work then; `park` by default.
    #[serde(default, alias = "on_expiry", skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
    /// How much it may use.
    #[serde(default)]
    pub resources: Resources,
    /// What it can reach; the server's setting by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Another OCI runtime of the engine, such as `runsc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// What is in its workspace; nothing by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceSource>,
}

/// The fate of a workspace when the time of its sandbox is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnExpiry {
    /// It is parked if it has changes that were neither merged nor snapshotted,
    /// and removed otherwise.
    #[default]
    Park,
    /// It is removed.
    Delete,
}

/// How much a sandbox may use. What is asked for is given or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// Processors, such as `2` or `0.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2")]
    pub cpu: Option<String>,
    /// Memory, such as `512m` or `2g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2g")]
    pub memory: Option<String>,
    /// What can be written to the workspace and the home directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10g")]
    pub disk: Option<String>,
    /// Processes at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 8, maximum = 100000)]
    pub pids: Option<u32>,
}

/// What a sandbox can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// Nothing.
    None,
    /// Public addresses: no other sandbox, not the host, nothing private.
    Internet,
}

impl NetworkMode {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internet => "internet",
        }
    }
}

/// What a workspace holds at first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum WorkspaceSource {
    /// A snapshot, by its id.
    Snapshot(String),
    /// A directory of the server's machine; needs the scope `host`.
    Directory(String),
    /// What is in the workspace of another sandbox now; its disk is that
    /// one's, too.
    Fork(String),
    /// A project: the sandbox works on a workspace of it, which can be merged.
    Project(ProjectSource),
    /// A parked workspace, by its id: the sandbox goes on in it.
    Existing(String),
}

/// The project that a sandbox works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectSource {
    /// The project, by id or name.
    pub name: String,
    /// The agent that works in it; the key's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A head of the project to begin with; the newest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Whether nothing can be written; as the policy says by default.
    #[serde(default)]
    pub read_only: bool,
    /// How it keeps up with the project.
    #[serde(default)]
    pub sync: Sync,
}

/// Where a sandbox is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// Its container is being made or its agent is awaited.
    Starting,
    /// Commands can run.
    Running,
    /// It is being stopped.
    Stopping,
    /// It has its workspace and no processes.
    Stopped,
    /// Something failed; it can be started, stopped or deleted.
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
    /// Its id.
    #[schema(example = "sbx-abc123")]
    pub id: String,
    /// The workspace it works in.
    pub workspace_id: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is in its life.
    pub state: SandboxState,
    /// Why it is in that state, if something went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it was started from.
    pub template: String,
    /// The agent it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How much it may use, all of it said.
    pub resources: Resources,
    /// What it can reach.
    pub network: NetworkMode,
    /// The OCI runtime, if another than the engine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When it is removed.
    pub expires_at: String,
    /// The fate of its work then.
    pub on_expiry: OnExpiry,
}

/// A page of sandboxes, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SandboxPage {
    /// Those on this page.
    pub items: Vec<Sandbox>,
    /// How many there are on all pages.
    pub total: u64,
    /// Which page.
    pub page: u32,
    /// How many a page has.
    pub limit: u32,
}

/// Sandboxes to delete.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchDelete {
    /// At most 50.
    #[schema(max_items = 50)]
    pub ids: Vec<String>,
    /// Whether the workspaces are parked: kept for a while, to be resumed by new
    /// sandboxes.
    #[serde(default, alias = "keep_workspace")]
    pub keep_workspace: bool,
}

/// What became of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BatchDeleted {
    /// Those that are gone.
    pub succeeded: Vec<String>,
    /// Those that are not.
    pub failed: Vec<Failed>,
}

/// One of a batch that failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Failed {
    /// Which.
    pub id: String,
    /// Why.
    pub error: ErrorBody,
}

/// How much longer a sandbox shall live.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extend {
    /// Seconds beyond the present end; at most 3600.
    #[schema(minimum = 1, maximum = 3600)]
    pub seconds: u32,
}

/// A wish for forks of a sandbox's files. Processes are not forked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fork {
    /// How many; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 50)]
    pub count: Option<u32>,
    /// What they are called: the name, and a number if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 90)]
    pub name: Option<String>,
    /// Seconds after which they are removed; as long as the origin was given by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_seconds: Option<u32>,
}

/// What became of a fork.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Forked {
    /// Those that run.
    pub succeeded: Vec<Sandbox>,
    /// Those that do not; nothing is left of them.
    pub failed: Vec<Failed>,
}

/// What the container has logged.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    /// The lines.
    pub logs: String,
    /// Whether there is more than was given.
    pub truncated: bool,
}

/// What a sandbox uses.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStats {
    /// Which.
    pub sandbox_id: String,
    /// Processors.
    pub cpu: StatsCpu,
    /// Memory.
    pub memory: StatsMemory,
    /// Disk.
    pub disk: StatsDisk,
    /// Network.
    pub network: StatsNetwork,
    /// Processes.
    pub processes: u64,
    /// When this was so.
    pub updated_at: String,
}

/// Use of processors.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatsCpu {
    /// In percent of what it may use.
    pub usage: f64,
    /// How many it may use.
    pub limit: String,
}

/// Use of memory, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatsMemory {
    /// What it uses.
    pub usage: u64,
    /// What it may use.
    pub limit: u64,
    /// The one in percent of the other.
    pub percent: f64,
}

/// Use of the disk, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatsDisk {
    /// What it has written, if that is counted here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
    /// What it may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Use of the network, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatsNetwork {
    /// Received.
    pub rx_bytes: u64,
    /// Sent.
    pub tx_bytes: u64,
}
