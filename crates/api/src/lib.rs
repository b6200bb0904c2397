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
mod files;
mod keys;
mod me;
mod port;
mod process;
mod project;
mod pty;
mod sandbox;
mod size;
mod system;
mod template;
mod ticket;
mod watch;
mod webhook;
mod workspace;

pub use admin::{BackupMade, MakeBackup, QuarantineList, Quarantined, UnreadWorkspace};
pub use error::{ErrorBody, ErrorEnvelope};
pub use event::{
    EVENT_KINDS, Event, EventData, EventGap, EventItem, EventPage, ProjectLanded, ReviewEvent,
    SandboxEvent, WorkspaceExpired, WorkspaceRefused,
};
pub use files::{FileInfo, FileKind, FilePage, MakeDirectory, MoveFile};
pub use keys::{
    Agent, AgentPage, ChangeTenant, CreateAgent, CreateKey, CreateTenant, Key, KeyLimits, KeyPage,
    NewKey, NewTenant, Scope, Tenant, TenantLimits, TenantPage,
};
pub use me::{EffectiveLimits, Info, Left, Me, Named, ServerLimits, Usage};
pub use port::{CreatePortLink, PortLink};
pub use process::{
    CommandInfo, CommandInput, CommandPage, CommandResult, CommandStarted, Encoding, Kill,
    RunCommand, StreamEvent, StreamKind,
};
pub use project::{
    Apply, ApplyFile, Blame, BlamedLines, ChangeProject, Conflict, ConflictHunk, CreateProject,
    CreateWorkspace, Decided, FileRefused, FileVersion, ForkWorkspace, HunkLines, HunkPlace,
    ImportResult, ImportSource, LandedFile, LineRange, Merge, MergeResult, MergeWorkspaces,
    Project, ProjectPage, ProjectPolicy, Refresh, Refreshed, ResolveReview, ResolveReviews,
    RestorePath, Retention, Revert, Review, ReviewPage, ReviewState, ReviewToResolve,
    ReviewsResolved, SetPolicy, SetTag, Step, StepPage, Sync, SyncMode, Tag, TagPage, Take,
    Version, VersionPage, Workspace, WorkspaceMerged, WorkspacePage, WorkspaceState,
    WorkspacesForked, WorkspacesMerged,
};
pub use pty::{CreatePty, PtyClientMessage, PtyMessages, PtyServerMessage, PtySession, Resize};
pub use sandbox::{
    BatchDelete, BatchDeleted, ChangeSandbox, CreateSandbox, Extend, Failed, Fork, Forked, Logs,
    NetworkMode, OnExpiry, Origin, ProjectSource, Resources, Sandbox, SandboxPage, SandboxState,
    SandboxStats, StatsCpu, StatsDisk, StatsMemory, StatsNetwork, WorkspaceSource,
};
pub use size::{InvalidSize, format_size, parse_cpu, parse_limit, parse_size};
pub use system::{
    Gc, GcCurrent, GcPhase, GcReport, GcResult, GcStatus, Health, PoolStats, Ready, ReadyCheck,
    SandboxCounts, SystemResources, SystemStats,
};
pub use template::{AddTemplate, PullEvent, Template, TemplatePage};
pub use ticket::{CreateTicket, Ticket};
pub use watch::{WatchEvent, WatchKind};
pub use webhook::{
    ChangeWebhook, CreateWebhook, Delivery, DeliveryPage, DeliveryState, RotateWebhook,
    RotatedWebhook, Webhook, WebhookPage,
};
pub use workspace::{
    Change, ChangeKind, ChangeSnapshot, Diff, DiffFormat, DiffOrStat, DiffStat, DiffTotals,
    FileStat, Restore, Snapshot, SnapshotPage, SnapshotTaken, TakeSnapshot,
};
