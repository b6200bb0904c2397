use std::fmt;

use elevo_core::{SandboxId, SandboxState};
use elevo_objects::SnapshotId;

use crate::records::LandedStep;

/// Errors of a catalog. A new kind is added only where a caller would act
/// differently.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The record does not exist, or not for this tenant.
    #[error("there is no such {what}")]
    NotFound {
        /// The record that was looked for.
        what: Kind,
    },
    /// The id, name or hash is taken.
    #[error("the {what} already exists")]
    Exists {
        /// The record that was to be added.
        what: Kind,
    },
    /// Another sandbox of the tenant, or another workspace of the project, has
    /// the name; nothing changed.
    #[error("another {what} has this name")]
    NameTaken {
        /// The record that was to be added or renamed.
        what: Kind,
    },
    /// The sandbox is not in a state that allows the change; nothing changed.
    #[error("the sandbox is {is}")]
    WrongState {
        /// The present state.
        is: SandboxState,
    },
    /// The sandbox is being removed: it cannot start, and the removal cannot be
    /// undone; nothing changed.
    #[error("the sandbox is being removed")]
    Removing,
    /// A project or a workspace is being removed, which cannot be undone; nothing
    /// changed.
    #[error("the {what} is being removed")]
    BeingRemoved {
        /// The record that is being removed.
        what: Kind,
    },
    /// A sandbox uses the record; nothing changed.
    #[error("sandbox `{sandbox}` uses the {what}")]
    InUse {
        /// The record that is in use.
        what: Kind,
        /// Id of the sandbox.
        sandbox: SandboxId,
    },
    /// The record is not in the expected state: another change came first.
    /// Nothing changed.
    #[error("the {what} has changed since it was read")]
    Changed {
        /// The record that has changed.
        what: Kind,
    },
    /// Another landing has moved the head; nothing changed.
    #[error("the project's head has moved: it is now {head}, step {sequence}")]
    HeadMoved {
        /// The present head.
        head: SnapshotId,
        /// Number of times the head has moved.
        sequence: u64,
    },
    /// The policy has changed, so the landing may no longer be allowed; nothing
    /// changed.
    #[error("the project's policy has changed: it is version {version} now")]
    PolicyMoved {
        /// The present version of the policy.
        version: u64,
    },
    /// The content of a version was dropped, so no record can come to need it;
    /// nothing changed.
    #[error("the content of version {snapshot} was dropped")]
    Dropped {
        /// Snapshot of the version.
        snapshot: SnapshotId,
    },
    /// A step with that request was carried out before; nothing changed.
    #[error("the request `{request}` was carried out before")]
    Repeated {
        /// The request of the step.
        request: String,
        /// The result of the earlier step.
        landed: LandedStep,
    },
    /// A limit is reached; nothing was added.
    #[error("the limit of {limit} {which} is reached")]
    LimitReached {
        /// The limit that is reached.
        which: Limit,
        /// Value of the limit.
        limit: u64,
    },
    /// The call is invalid: for example, a text, a time or a number is out of
    /// bounds. Nothing changed.
    #[error("refused: {0}")]
    Refused(String),
    /// Other writers kept the database busy for too long; the same call may
    /// succeed later. Nothing changed.
    #[error("the catalog is busy; try again")]
    Busy,
    /// The disk has no space for the change. Nothing changed.
    #[error("the disk of the catalog is full")]
    Full,
    /// A newer version of the program has migrated the database.
    #[error(
        "the catalog has format {found}, and this version of Elevo reads up to {known}; install \
         the version that wrote it or a newer one, or restore the copy `catalog.db.version-{known}` \
         (without the files `catalog.db-wal` and `catalog.db-shm`) or a backup from before the \
         upgrade"
    )]
    Newer {
        /// Format of the catalog: its newest migration.
        found: i64,
        /// The newest format that this version reads.
        known: i64,
    },
    /// The data that was read cannot have been written by this program.
    #[error("the catalog is damaged ({0}); restore it from a backup")]
    Damaged(String),
    /// The underlying storage failed; whether a change happened is unknown.
    #[error("the catalog's storage failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A tenant.
    Tenant,
    /// An agent of a tenant.
    Agent,
    /// An API key.
    Key,
    /// A sandbox.
    Sandbox,
    /// An owner of a new record: its tenant, agent, key or project.
    Owner,
    /// A running request, by its idempotency key.
    Request,
    /// A project.
    Project,
    /// A workspace.
    Workspace,
    /// A review.
    Review,
    /// A tag of a project.
    Tag,
    /// A snapshot of a client.
    Snapshot,
    /// A webhook.
    Webhook,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tenant => "tenant",
            Self::Agent => "agent",
            Self::Key => "key",
            Self::Sandbox => "sandbox",
            Self::Owner => "tenant, project, agent or key",
            Self::Request => "running request",
            Self::Project => "project",
            Self::Workspace => "workspace",
            Self::Review => "review",
            Self::Tag => "tag",
            Self::Snapshot => "snapshot",
            Self::Webhook => "webhook",
        })
    }
}

/// Limits that can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Sandboxes of one key, or of all keys of its agent.
    SandboxesOfKey,
    /// Sandboxes of all tenants together.
    Sandboxes,
    /// Sandboxes of one tenant.
    SandboxesOfTenant,
    /// Bytes of memory of the sandboxes of one tenant.
    MemoryOfTenant,
    /// Bytes of disk of the sandboxes of one tenant.
    DiskOfTenant,
    /// Workspaces of one tenant.
    WorkspacesOfTenant,
    /// Projects of one tenant.
    ProjectsOfTenant,
    /// Tenants.
    Tenants,
    /// Agents of one tenant.
    Agents,
    /// Keys of one tenant, revoked ones included.
    Keys,
    /// Templates.
    Templates,
    /// Tags of one project.
    Tags,
    /// Webhooks of one tenant.
    Webhooks,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SandboxesOfKey => "sandboxes for this key",
            Self::Sandboxes => "sandboxes on this server",
            Self::SandboxesOfTenant => "sandboxes of this tenant",
            Self::MemoryOfTenant => "bytes of memory for the sandboxes of this tenant",
            Self::DiskOfTenant => "bytes of disk for the sandboxes of this tenant",
            Self::WorkspacesOfTenant => "workspaces of this tenant",
            Self::ProjectsOfTenant => "projects of this tenant",
            Self::Tenants => "tenants",
            Self::Agents => "agents of a tenant",
            Self::Keys => "keys of a tenant",
            Self::Templates => "templates",
            Self::Tags => "tags of a project",
            Self::Webhooks => "webhooks of a tenant",
        })
    }
}

/// Result of a call into a catalog.
pub type Result<T> = std::result::Result<T, Error>;
