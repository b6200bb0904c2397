use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::described::{Described, describe, lossy, path_details};
use super::exit::Exit;

/// Errors of starting and stopping the process of a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessProblem {
    #[error("a server is already {doing} with the data directory {}", .data.display())]
    Changing { data: PathBuf, doing: &'static str },
    #[error("the server was stopped before it was ready")]
    StoppedEarly,
    #[error("the server was killed before it was ready, by signal {}", .signal.unwrap_or_default())]
    Died { signal: Option<i32>, log: PathBuf },
    #[error(
        "a process holds the lock {}, but the file does not identify that process",
        .lock.display()
    )]
    HolderUnknown { lock: PathBuf },
    #[error("cannot send a signal to the server, process {pid}")]
    NotSignalled { pid: i32, source: io::Error },
    #[error("the server, process {pid}, has not stopped yet")]
    StillStopping { pid: i32 },
    #[error("there is no log in {}", .0.display())]
    NoLog(PathBuf),
}

impl ProcessProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::Changing { data, doing } => describe(
                Exit::Busy,
                "server_busy",
                json!({ "data": lossy(data), "state": doing }),
                "retry when `elevo server status` shows that it runs or has stopped",
            ),
            Self::StoppedEarly => describe(
                Exit::Failed,
                "server_stopped",
                Value::Null,
                "start it again with `elevo up`",
            ),
            Self::Died { log, .. } => describe(
                Exit::Failed,
                "server_died",
                path_details("log", log),
                "`elevo server logs` shows its last lines; `elevo server run` starts it in this \
                 terminal",
            ),
            Self::HolderUnknown { lock } => describe(
                Exit::Failed,
                "server_unknown",
                path_details("lock", lock),
                "stop the server where it was started: another container or another user may run \
                 it",
            ),
            Self::NotSignalled { pid, .. } => describe(
                Exit::Failed,
                "server_not_signalled",
                json!({ "pid": pid }),
                "run the command as the user of the server, or as root",
            ),
            Self::StillStopping { pid } => describe(
                Exit::Busy,
                "server_stopping",
                json!({ "pid": pid }),
                "it waits for running requests; wait longer with --timeout TIME, or cut them off \
                 with `elevo server stop --now`",
            ),
            Self::NoLog(path) => describe(
                Exit::NotFound,
                "no_log",
                path_details("directory", path),
                "name the data directory of the server with --data DIR; with --log-stderr the \
                 service manager has the log",
            ),
        }
    }
}
