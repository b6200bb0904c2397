use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::described::{Advice, Described, describe, lossy, path_details};
use super::exit::Exit;

/// Errors of running a server and of calling the one that holds a store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerProblem {
    #[error("a server is already running with the data directory {}, at {url}", .data.display())]
    AlreadyRunning {
        data: PathBuf,
        url: String,
        pid: u32,
    },
    #[error("the settings cannot be used: {}", .0.join("; "))]
    Settings(Vec<String>),
    #[error("the server that holds the store {} does not respond", .store.display())]
    Socket { store: PathBuf, source: io::Error },
    #[error("the server stopped before it had responded to all requests")]
    CutShort,
    #[error("there is no audit log in {}", .0.display())]
    NoAuditLog(PathBuf),
    #[error("{0}")]
    CatalogUrl(String),
}

impl ServerProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::AlreadyRunning { data, url, pid } => describe(
                Exit::Conflict,
                "server_running",
                json!({ "data": lossy(data), "server": url, "pid": pid }),
                "use that server, stop it with `elevo down`, or name another directory with \
                 --data DIR",
            ),
            Self::Settings(problems) => describe(
                Exit::Usage,
                "settings_invalid",
                json!({ "problems": problems }),
                "`workspace-server --help` lists all settings",
            ),
            Self::Socket { store, .. } => describe(
                Exit::Busy,
                "store_busy",
                path_details("store", store),
                "the server must run as the same user; read its log (`elevo server logs`), or stop it first",
            ),
            Self::CatalogUrl(_) => describe(
                Exit::Usage,
                "catalog_url_invalid",
                Value::Null,
                "name a file, or a URL of that form",
            ),
            Self::CutShort => describe(Exit::Failed, "cut_short", Value::Null, Advice::None),
            Self::NoAuditLog(path) => describe(
                Exit::NotFound,
                "no_audit_log",
                path_details("directory", path),
                "name the data directory of the server with --data; a server creates the log when \
                 it starts",
            ),
        }
    }
}
