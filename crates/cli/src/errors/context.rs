use std::path::PathBuf;

use serde_json::{Value, json};

use super::described::{Described, describe, path_details};
use super::exit::Exit;

/// Errors of logging in to servers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContextProblem {
    #[error("there is no context `{0}`")]
    Unknown(String),
    #[error("`{0}` is not a valid name of a context")]
    InvalidName(String),
    #[error("there is no context to log out of")]
    NotLoggedIn,
    #[error("cannot read the contexts in {}: {why}", .path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("cannot determine the directory for the contexts of this user")]
    NoHome,
    #[error("no key was entered")]
    NoKey,
    #[error("the server at {url} rejects the key")]
    KeyRejected { url: String },
}

impl ContextProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::Unknown(name) => describe(
                Exit::NotFound,
                "context_not_found",
                json!({ "context": name }),
                "`elevo context ls` lists the contexts; `elevo login URL` creates one",
            ),
            Self::InvalidName(name) => describe(
                Exit::Usage,
                "context_invalid",
                json!({ "context": name }),
                "use a name of up to 64 letters, digits and . - _ : other than `local`; --name \
                 sets the name",
            ),
            Self::NotLoggedIn => describe(
                Exit::NotFound,
                "context_not_found",
                Value::Null,
                "name a context; `elevo context ls` lists them",
            ),
            Self::Unreadable { path, .. } => describe(
                Exit::Failed,
                "contexts_unreadable",
                path_details("path", path),
                "repair or delete the file, then log in again with `elevo login URL`",
            ),
            Self::NoHome => describe(
                Exit::Usage,
                "no_home",
                Value::Null,
                "set HOME or XDG_CONFIG_HOME to an absolute path",
            ),
            Self::NoKey => describe(
                Exit::Usage,
                "key_missing",
                Value::Null,
                "enter the key at the question, write it to standard input, or name a file with \
                 --key-file",
            ),
            Self::KeyRejected { url } => describe(
                Exit::Failed,
                "unauthorized",
                json!({ "server": url }),
                "check the key: it may have been revoked, have expired, or be of another server",
            ),
        }
    }
}
