use elevo_agent_proto::v1;

use crate::tunnel::FileFailure;

/// The failures of a call to an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The connection is lost. Processes in the sandbox keep running: attach to
    /// them again when the agent has reconnected.
    #[error("the connection to the workspace agent in the sandbox is lost")]
    Disconnected,
    /// The agent has no process with this id, or has already deleted its
    /// record.
    #[error("the process does not exist in the sandbox")]
    NoSuchProcess,
    /// The process could not be started.
    #[error("cannot start the process: {message}")]
    CannotStart {
        /// The cause, for programs.
        kind: StartFailure,
        /// The cause, for people.
        message: String,
    },
    /// A limit is reached.
    #[error("too many {what}: the limit is {limit}")]
    TooMany {
        /// The resource that is limited, in the plural.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// The process has ended, or its input or output is closed.
    #[error("the process has ended")]
    Ended,
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// No process in the sandbox accepts connections on the port.
    #[error("no process in the sandbox accepts connections on the port")]
    NotOpen,
    /// An operation on files failed.
    #[error("the operation on the file failed: {0:?}")]
    File(FileFailure),
    /// The agent did not open a tunnel in time.
    #[error("the workspace agent in the sandbox did not respond in time")]
    TimedOut,
}

/// Why a process could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartFailure {
    /// The working directory is missing or not a directory.
    NoCwd,
    /// Access to the working directory is denied.
    CwdDenied,
    /// The shell is missing.
    NoShell,
    /// The shell is not executable.
    ShellDenied,
    /// The command and its environment are longer than the system allows.
    TooLong,
    /// The sandbox has reached its limit of processes.
    NoProcesses,
    /// The sandbox has no memory left.
    NoMemory,
    /// The agent has reached its limit of open files.
    NoFiles,
    /// Any other cause; see the message.
    Other,
}

impl From<v1::StartError> for StartFailure {
    fn from(error: v1::StartError) -> Self {
        match error {
            v1::StartError::NoCwd => Self::NoCwd,
            v1::StartError::CwdDenied => Self::CwdDenied,
            v1::StartError::NoShell => Self::NoShell,
            v1::StartError::ShellDenied => Self::ShellDenied,
            v1::StartError::TooLong => Self::TooLong,
            v1::StartError::NoProcesses => Self::NoProcesses,
            v1::StartError::NoMemory => Self::NoMemory,
            v1::StartError::NoFiles => Self::NoFiles,
            v1::StartError::Unspecified => Self::Other,
        }
    }
}

impl From<v1::Failure> for LinkError {
    fn from(failure: v1::Failure) -> Self {
        match failure.kind() {
            v1::FailureKind::NoSuchProcess => Self::NoSuchProcess,
            v1::FailureKind::CannotStart => Self::CannotStart {
                kind: failure.start_error().into(),
                message: failure.message,
            },
            v1::FailureKind::TooMany => Self::TooMany {
                what: failure.what,
                limit: failure.limit,
            },
            v1::FailureKind::Ended => Self::Ended,
            v1::FailureKind::NotOpen => Self::NotOpen,
            v1::FailureKind::Invalid | v1::FailureKind::Unspecified => {
                Self::Invalid(failure.message)
            }
        }
    }
}
