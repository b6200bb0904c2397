//! Failures of use cases: an error code and a message for the caller. Only this
//! module maps errors of the libraries to error codes.

use elevo_agent_link::LinkError;
use elevo_api::ErrorBody;
use elevo_catalog::Limit;
use elevo_core::ErrorCode;
use elevo_engine::StoreError;
use serde_json::{Value, json};

/// The failure of a use case.
#[derive(Debug)]
pub struct Failure {
    /// Code of the failure.
    pub code: ErrorCode,
    /// The failure and its cause, in one sentence.
    pub message: String,
    /// Machine-readable details, such as the id that was not found.
    pub details: Value,
    /// How to resolve the failure, if it differs from the code's default.
    pub remediation: Option<Box<str>>,
    /// Seconds to wait before a retry.
    pub retry_after: Option<u32>,
    /// The underlying error, for the log only.
    pub cause: Option<Box<str>>,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Returns the failure as the error of a response.
    pub(crate) fn body(&self, request_id: &str) -> ErrorBody {
        let remediation = self.remediation.as_deref();
        ErrorBody {
            code: self.code.number(),
            name: self.code.name().into(),
            message: self.message.clone(),
            details: self.details.clone(),
            remediation: remediation.unwrap_or(self.code.remediation()).into(),
            retry: self.code.retry().name().into(),
            request_id: request_id.into(),
        }
    }

    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: json!({}),
            remediation: None,
            retry_after: None,
            cause: None,
        }
    }

    /// Adds a detail.
    pub(crate) fn about(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Value::Object(details) = &mut self.details {
            details.insert(name.into(), value.into());
        }
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn remediation(mut self, words: impl Into<Box<str>>) -> Self {
        self.remediation = Some(words.into());
        self
    }

    /// Records the underlying error, which only the log shows.
    pub(crate) fn caused_by(mut self, error: &dyn std::error::Error) -> Self {
        self.cause = Some(chain(error).into());
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        Self::new(ErrorCode::InternalError, "an internal error occurred").caused_by(error)
    }

    pub(crate) fn no_sandbox(id: &str) -> Self {
        let message = format!("there is no sandbox `{}`", short(id));
        Self::new(ErrorCode::SandboxNotFound, message).about("sandboxId", short(id))
    }

    /// Returns the failure of a request on a full disk.
    pub(crate) fn full(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InsufficientStorage, message).retry_after(10)
    }

    /// Returns a copy, for another caller.
    pub(crate) fn again(&self) -> Self {
        Self {
            code: self.code,
            message: self.message.clone(),
            details: self.details.clone(),
            remediation: self.remediation.clone(),
            retry_after: self.retry_after,
            cause: self.cause.clone(),
        }
    }

    /// Returns the message with its cause, for a row or the log.
    pub(crate) fn summary(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.message),
            None => self.message.clone(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

/// Shortens text from a client so that it fits into a message.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Formats an error with its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        text += &format!(": {error}");
        below = error.source();
    }
    text
}

impl From<elevo_catalog::Error> for Failure {
    fn from(error: elevo_catalog::Error) -> Self {
        use elevo_catalog::Error;
        let code = match &error {
            Error::NotFound { .. } => ErrorCode::NotFound,
            Error::Exists { .. } | Error::NameTaken { .. } => ErrorCode::NameTaken,
            Error::Changed { .. }
            | Error::HeadMoved { .. }
            | Error::PolicyMoved { .. }
            | Error::Repeated { .. } => ErrorCode::VersionConflict,
            Error::BeingRemoved { .. } => ErrorCode::NotFound,
            Error::Dropped { .. } => ErrorCode::VersionDropped,
            Error::WrongState { .. } | Error::Removing => ErrorCode::SandboxWrongState,
            Error::LimitReached { which, limit } => {
                return limit_reached(*which, *limit, error.to_string());
            }
            Error::InUse { sandbox, .. } => {
                let failure = Self::new(ErrorCode::WorkspaceInUse, error.to_string());
                return failure
                    .about("sandboxId", sandbox.as_str())
                    .remediation("Delete the sandbox that the message names first.");
            }
            Error::Refused(_) => ErrorCode::InvalidRequest,
            Error::Full => return Self::full(error.to_string()),
            Error::Busy => ErrorCode::Overloaded,
            _ => {
                let failure = Self::new(ErrorCode::StorageFailed, "the catalog cannot be used");
                return failure.caused_by(&error).retry_after(5);
            }
        };
        let failure = Self::new(code, error.to_string());
        match code {
            ErrorCode::Overloaded => failure.retry_after(1),
            _ => failure,
        }
    }
}

/// Returns the failure of a request beyond a limit of the catalog. Its
/// remediation names the setting or the limit that raises it.
fn limit_reached(which: Limit, limit: u64, message: String) -> Failure {
    let of_tenant = |field: &'static str, setting: &'static str| {
        let raise =
            format!("raise the limit `{field}` of the tenant, or {setting} for all tenants");
        (field, format!("ask the operator to {raise}"))
    };
    let (resource, raise) = match which {
        Limit::SandboxesOfKey => (
            "sandboxes",
            "use a key with a higher limit `sandboxes`; the setting KEY_SANDBOXES of the server \
             is the default"
                .to_owned(),
        ),
        Limit::Sandboxes => (
            "sandboxes",
            "ask the operator to raise MAX_SANDBOXES".to_owned(),
        ),
        Limit::SandboxesOfTenant => of_tenant("sandboxes", "TENANT_SANDBOXES"),
        Limit::MemoryOfTenant => of_tenant("memory", "TENANT_MEMORY"),
        Limit::DiskOfTenant => of_tenant("disk", "TENANT_DISK"),
        Limit::WorkspacesOfTenant => of_tenant("workspaces", "TENANT_WORKSPACES"),
        Limit::ProjectsOfTenant => of_tenant("projects", "TENANT_PROJECTS"),
        _ => {
            return Failure::new(ErrorCode::ResourceRefused, message)
                .remediation("Delete resources of this kind that are no longer needed.");
        }
    };
    let is_count = matches!(
        which,
        Limit::Sandboxes | Limit::SandboxesOfKey | Limit::SandboxesOfTenant
    );
    let failure = match is_count {
        true => Failure::new(ErrorCode::SandboxLimitExceeded, message).retry_after(60),
        false => Failure::new(ErrorCode::QuotaExceeded, message),
    };
    let unneeded = match which {
        Limit::WorkspacesOfTenant | Limit::ProjectsOfTenant => resource,
        _ => "sandboxes",
    };
    failure
        .about("resource", resource)
        .about("limit", limit)
        .remediation(format!(
            "Delete {unneeded} that are no longer needed, or {raise}."
        ))
}

impl From<elevo_sandbox::Error> for Failure {
    fn from(error: elevo_sandbox::Error) -> Self {
        use elevo_sandbox::Error;
        let message = chain(&error);
        match &error {
            Error::Unreachable { .. } => Self::new(
                ErrorCode::RuntimeUnavailable,
                "the container engine does not respond, so sandboxes cannot be used",
            )
            .caused_by(&error)
            .retry_after(5),
            Error::NoSuchImage { .. } => Self::new(ErrorCode::ImageUnavailable, message),
            Error::ImageDenied { .. } => Self::new(ErrorCode::ImageUnavailable, message)
                .remediation(
                    "Check the name of the image. If it is private, an operator must add the \
                     credentials of its registry to the file that `REGISTRY_AUTH_FILE` names.",
                ),
            Error::NoSuchRuntime { .. } | Error::Refused { .. } => {
                Self::new(ErrorCode::ResourceRefused, message)
            }
            Error::NotRunnable { image, .. } => {
                let message = format!("image `{image}` cannot run a sandbox");
                Self::new(ErrorCode::SandboxStartFailed, message).caused_by(&error)
            }
            // The engine's message is not shown to the caller, because it may
            // contain paths and addresses of the host.
            _ => Self::new(ErrorCode::SandboxStartFailed, "the container engine failed")
                .caused_by(&error),
        }
    }
}

impl From<elevo_workspace::Error> for Failure {
    fn from(error: elevo_workspace::Error) -> Self {
        use elevo_workspace::Error;
        if let Error::Engine(elevo_engine::Error::Store(store)) = &error
            && let Some(failure) = of_store(store)
        {
            return failure;
        }
        match &error {
            Error::Busy(_) => Self::new(ErrorCode::WorkspaceBusy, error.to_string()).retry_after(1),
            Error::NoBtrfs => Self::new(ErrorCode::RuntimeUnavailable, error.to_string())
                .remediation("Install the package btrfs-progs on the server's machine, and retry."),
            Error::ReadOnly(_) => Self::new(ErrorCode::WorkspaceReadOnly, error.to_string()),
            Error::Engine(elevo_engine::Error::InTheWay { .. }) => {
                let message = format!("the workspace was changed concurrently: {}", chain(&error));
                Self::new(ErrorCode::WorkspaceBusy, message).retry_after(1)
            }
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::full("the server's disk is full").caused_by(&error)
            }
            _ => Self::new(ErrorCode::StorageFailed, "the workspace cannot be used")
                .caused_by(&error)
                .retry_after(5),
        }
    }
}

impl From<elevo_engine::Error> for Failure {
    fn from(error: elevo_engine::Error) -> Self {
        if let elevo_engine::Error::Store(store) = &error
            && let Some(failure) = of_store(store)
        {
            return failure;
        }
        if let elevo_engine::Error::TooMuchText = error {
            return Self::new(ErrorCode::PayloadTooLarge, error.to_string())
                .remediation("Compare states with fewer changes, or download an archive instead.");
        }
        Self::new(ErrorCode::StorageFailed, "the store cannot be used")
            .caused_by(&error)
            .retry_after(5)
    }
}

/// Returns the failure of a call to the store that certainly changed nothing, and
/// that may succeed later; `None` for other errors.
fn of_store(error: &StoreError) -> Option<Failure> {
    let failure = match error {
        StoreError::Full => return Some(Failure::full("the server's disk is full")),
        StoreError::Unavailable(_) => {
            Failure::new(ErrorCode::Overloaded, "the store cannot be reached").retry_after(1)
        }
        StoreError::Lost => {
            let message = "this server has lost its store and must start again";
            Failure::new(ErrorCode::ShuttingDown, message).retry_after(5)
        }
        _ => return None,
    };
    Some(failure.caused_by(error))
}

impl From<elevo_merge::Error> for Failure {
    fn from(error: elevo_merge::Error) -> Self {
        use elevo_merge::Error;
        match error {
            Error::TooManyChanges { limit } => {
                Self::new(ErrorCode::TooManyChanges, error.to_string()).about("limit", limit)
            }
            Error::Engine(error) => error.into(),
            error => Self::new(ErrorCode::StorageFailed, "the merge failed")
                .caused_by(&error)
                .retry_after(5),
        }
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        let message = error.to_string();
        match error {
            LinkError::Disconnected => {
                Self::new(ErrorCode::AgentUnreachable, message).retry_after(1)
            }
            LinkError::NoSuchProcess | LinkError::Ended => {
                Self::new(ErrorCode::ProcessNotFound, message)
            }
            LinkError::CannotStart { .. } => Self::new(ErrorCode::CommandFailed, message),
            LinkError::TooMany { .. } => {
                Self::new(ErrorCode::ProcessLimitExceeded, message).retry_after(1)
            }
            LinkError::Invalid(_) => Self::new(ErrorCode::InvalidRequest, message),
            _ => Self::new(ErrorCode::AgentUnreachable, message).retry_after(1),
        }
    }
}

/// Logs a failure and returns `None`, so that a loop over rows can continue
/// with the next row.
pub(crate) fn log_failure<T>(done: Result<T>, kind: &str, id: &str, what: &str) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(failure) => {
            tracing::error!(kind, id, cause = failure.summary(), "{what}");
            None
        }
    }
}
