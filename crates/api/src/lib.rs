//! Wire types of the REST API, for the server and for clients written in Rust.
//!
//! May depend on `elevo-core` and `elevo-policy` only. Contains no behaviour
//! beyond encoding and decoding its own values; the server validates requests.
//! Request types reject unknown fields, so that a misspelt limit is rejected
//! and not ignored. Responses may gain fields.

mod admin;
mod error;
mod event;
pub mod event_stream;
mod keys;
mod process;
mod project;
mod pty;
mod sandbox;
mod size;
mod system;
mod template;
mod webhook;
mod workspace;

pub use admin::{BackupMade, MakeBackup, QuarantineList, Quarantined, UnreadWorkspace};
pub use error::{ErrorBody, ErrorEnvelope};
pub use event::{
    EVENT_KINDS, Event, EventData, EventGap, EventItem, EventPage, ProjectLanded, ReviewEvent,
    SandboxEvent, WorkspaceExpired, WorkspaceRefused,
};
pub use keys::{
    Agent, AgentList, ChangeTenant, CreateAgent, CreateKey, CreateTenant, Key, KeyLimits, KeyList,
    NewKey, NewTenant, Scope, Tenant, TenantLimits, TenantList,
};
pub use process::{
    CommandInfo, CommandInput, CommandList, CommandResult, CommandStarted, Encoding, Kill,
    RunCommand, StreamEvent, StreamKind,
};
pub use project::{
    Apply, ApplyFile, Blame, BlamedLines, ChangeProject, Conflict, ConflictHunk, CreateProject,
    CreateWorkspace, Decided, FileRefused, FileVersion, HunkLines, HunkPlace, ImportResult,
    ImportSource, LandedFile, LineRange, LogEntry, LogPage, Merge, MergeResult, MergeWorkspaces,
    Project, ProjectPage, ProjectPolicy, Refresh, Refreshed, Resolution, ResolveReview,
    RestorePath, Retention, Revert, Review, ReviewPage, ReviewState, SetPolicy, SetTag, Sync,
    SyncMode, Tag, TagPage, TreeEntry, TreePage, Version, VersionPage, Workspace, WorkspaceMerged,
    WorkspacePage, WorkspaceState, WorkspacesMerged,
};
pub use pty::{CreatePty, PtyClientMessage, PtyMessages, PtyServerMessage, PtySession, Resize};
pub use sandbox::{
    BatchDelete, BatchDeleted, CreateSandbox, Extend, Failed, Fork, Forked, Logs, NetworkMode,
    OnExpiry, ProjectSource, Resources, Sandbox, SandboxPage, SandboxState, SandboxStats, StatsCpu,
    StatsDisk, StatsMemory, StatsNetwork, WorkspaceSource,
};
pub use size::{InvalidSize, format_size, parse_cpu, parse_limit, parse_size};
pub use system::{
    Gc, GcCurrent, GcPhase, GcReport, GcResult, GcStatus, Health, PoolStats, Ready, ReadyCheck,
    SandboxCounts, SystemResources, SystemStats,
};
pub use template::{AddTemplate, PullEvent, Template, TemplateList};
pub use webhook::{
    ChangeWebhook, CreateWebhook, Delivery, DeliveryPage, DeliveryState, RotateWebhook,
    RotatedWebhook, Webhook, WebhookPage,
};
pub use workspace::{
    Change, ChangeKind, Diff, DiffOrStat, DiffStat, DiffTotals, FileStat, Imported, Restore,
    Snapshot, SnapshotTaken, TakeSnapshot,
};
