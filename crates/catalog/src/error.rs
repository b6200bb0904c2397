use std::fmt;

use elevo_core::SandboxState;
use elevo_objects::SnapshotId;

use crate::records::LandedStep;

/// What a call into a catalog can end with. A new kind only where a caller
/// would act differently.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not there, or not for this tenant.
    #[error("there is no such {what}")]
    NotFound {
        /// What was looked for.
        what: Kind,
    },
    /// Its id, name or hash is taken.
    #[error("there is such a {what} already")]
    Exists {
        /// What was to be added.
        what: Kind,
    },
    /// The sandbox is not in a state that allows the change; nothing changed.
    #[error("the sandbox is {is}")]
    WrongState {
        /// The state it is in.
        is: SandboxState,
    },
    /// The sandbox is being removed: it starts no more, and there is no way
    /// back from that; nothing changed.
    #[error("the sandbox is being removed")]
    Removing,
    /// A project or a workspace is being removed, and there is no way back;
    /// nothing changed.
    #[error("the {what} is being removed")]
    BeingRemoved {
        /// What is being removed.
        what: Kind,
    },
    /// A sandbox uses it; nothing changed.
    #[error("sandbox `{sandbox}` uses the {what}")]
    InUse {
        /// The record that is in use.
        what: Kind,
        /// The id of the sandbox.
        sandbox: String,
    },
    /// Somebody else was faster: it is no longer as it was expected to be.
    /// Nothing changed.
    #[error("the {what} has changed meanwhile")]
    Changed {
        /// What has changed.
        what: Kind,
    },
    /// Something else has landed since; nothing changed.
    #[error("the project's head has moved: it is {head} now, landing {sequence}")]
    HeadMoved {
        /// The head now.
        head: SnapshotId,
        /// How many times it has moved.
        sequence: u64,
    },
    /// The policy was set since, so a landing may not be allowed any more;
    /// nothing changed.
    #[error("the project's policy has changed: it is version {version} now")]
    PolicyMoved {
        /// The version of the policy now.
        version: u64,
    },
    /// The content of a version was dropped, and nothing can come to need it;
    /// nothing changed.
    #[error("the content of version {snapshot} was dropped")]
    Dropped {
        /// The version's snapshot.
        snapshot: SnapshotId,
    },
    /// A step of that name was carried out before; nothing changed.
    #[error("the request `{request}` was carried out before")]
    Repeated {
        /// What it is called.
        request: String,
        /// What became of it then.
        landed: LandedStep,
    },
    /// There are as many as there may be; nothing was added.
    #[error("there are no more than {limit} {which}")]
    LimitReached {
        /// Of what there are too many.
        which: Limit,
        /// How many there may be.
        limit: u64,
    },
    /// The call itself cannot be served: a text, a time or a number is out of
    /// bounds. Nothing changed.
    #[error("refused: {0}")]
    Refused(String),
    /// Others kept the database busy for too long; the same call may succeed
    /// later. Nothing changed.
    #[error("the catalog is busy; try again")]
    Busy,
    /// The disk has no room for the change. Nothing changed.
    #[error("the disk of the catalog is full")]
    Full,
    /// A newer version of the program has changed the database.
    #[error("the catalog was written by a newer version (its format is {version}); use that one")]
    Newer {
        /// The first change of the format that is not known here.
        version: i64,
    },
    /// What was read is not what can have been written.
    #[error("the catalog is damaged ({0}); restore it from a backup")]
    Damaged(String),
    /// The storage below failed; whether a change happened is not known.
    #[error("the catalog's storage failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What a catalog keeps.
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
    /// What something new is said to belong to: its tenant, agent or key.
    Owner,
    /// A request that runs, by its idempotency key.
    Request,
    /// A project.
    Project,
    /// A workspace.
    Workspace,
    /// A review.
    Review,
    /// A tag of a project.
    Tag,
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
            Self::Owner => "tenant, agent or key",
            Self::Request => "running request",
            Self::Project => "project",
            Self::Workspace => "workspace",
            Self::Review => "review",
            Self::Tag => "tag",
            Self::Webhook => "webhook",
        })
    }
}

/// What there can be too many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Sandboxes of one key, or of all keys of its agent.
    SandboxesOfKey,
    /// Sandboxes of everybody.
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
            Self::Sandboxes => "sandboxes here",
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
