//! Failures that are reported to the server.

use elevo_agent_proto::v1::{Failure, FailureKind, StartError};
use rustix::io::Errno;

pub(crate) fn no_such_process() -> Failure {
    of(FailureKind::NoSuchProcess, "there is no such process")
}

pub(crate) fn ended() -> Failure {
    of(FailureKind::Ended, "the process has ended")
}

pub(crate) fn invalid(message: impl Into<String>) -> Failure {
    of(FailureKind::Invalid, message)
}

pub(crate) fn not_open(port: u16) -> Failure {
    let message = format!("no process accepts connections on port {port}");
    of(FailureKind::NotOpen, message)
}

pub(crate) fn too_many(what: &str, limit: usize) -> Failure {
    Failure {
        what: what.to_owned(),
        limit: limit as u64,
        ..of(FailureKind::TooMany, format!("too many {what}"))
    }
}

/// Returns the failure to enter a working directory.
pub(crate) fn cwd(path: &str, errno: Errno) -> Failure {
    let error = match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => StartError::NoCwd,
        Errno::ACCESS | Errno::PERM => StartError::CwdDenied,
        _ => resources(errno),
    };
    start(error, format!("cannot change to {path}: {errno}"))
}

/// Returns the failure to run a shell.
pub(crate) fn shell(path: &str, errno: Errno) -> Failure {
    let error = match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => StartError::NoShell,
        Errno::ACCESS | Errno::PERM | Errno::NOEXEC => StartError::ShellDenied,
        _ => resources(errno),
    };
    start(error, format!("cannot run {path}: {errno}"))
}

/// Returns the failure to create a resource that a process needs, such as pipes
/// or a terminal.
pub(crate) fn preparing(what: &str, errno: Errno) -> Failure {
    start(resources(errno), format!("cannot create {what}: {errno}"))
}

fn resources(errno: Errno) -> StartError {
    match errno {
        Errno::TOOBIG => StartError::TooLong,
        Errno::AGAIN => StartError::NoProcesses,
        Errno::NOMEM => StartError::NoMemory,
        Errno::MFILE | Errno::NFILE => StartError::NoFiles,
        _ => StartError::Unspecified,
    }
}

fn start(error: StartError, message: String) -> Failure {
    Failure {
        start_error: error.into(),
        ..of(FailureKind::CannotStart, message)
    }
}

fn of(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure {
        kind: kind.into(),
        message: message.into(),
        ..Failure::default()
    }
}
