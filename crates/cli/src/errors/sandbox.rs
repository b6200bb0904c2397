use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::described::{Advice, Described, describe, path_details, plain_failure};
use super::exit::Exit;
use crate::client::error::ClientError;

/// Errors of sandboxes, their commands and their terminals.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxProblem {
    #[error("there is no template yet")]
    NoTemplate,
    #[error("there is no template `{0}`")]
    UnknownTemplate(String),
    #[error("there is more than one template")]
    WhichTemplate,
    #[error("standard input or output is not a terminal")]
    NoTerminal,
    #[error("exactly one of SRC and DST must be SANDBOX:PATH")]
    CopyEnds,
    #[error("cannot overwrite the directory {} with a file", .0.display())]
    IsADirectory(PathBuf),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot read standard input")]
    Input(#[source] io::Error),
    #[error("the connection was lost; the command may have received only a part of its input")]
    InputLost {
        command: String,
        source: ClientError,
    },
}

impl SandboxProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::NoTemplate => describe(
                Exit::NotFound,
                "template_not_found",
                Value::Null,
                "`elevo template create IMAGE` creates one",
            ),
            Self::UnknownTemplate(name) => describe(
                Exit::NotFound,
                "template_not_found",
                json!({ "template": name }),
                "`elevo template ls` lists the templates",
            ),
            Self::WhichTemplate => describe(
                Exit::Usage,
                "template_missing",
                Value::Null,
                "name one; `elevo template ls` lists them",
            ),
            Self::NoTerminal => describe(
                Exit::Usage,
                "not_a_terminal",
                Value::Null,
                "`elevo exec SANDBOX -- COMMAND` runs a command without one",
            ),
            Self::CopyEnds => describe(Exit::Usage, "usage", Value::Null, "see `elevo cp --help`"),
            Self::IsADirectory(path) => describe(
                Exit::Conflict,
                "is_a_directory",
                path_details("path", path),
                Advice::None,
            ),
            Self::Listen { address, .. } => describe(
                Exit::Failed,
                "cannot_listen",
                json!({ "address": address.to_string() }),
                "choose another port with PORT:LOCAL, such as 3000:8080",
            ),
            Self::Input(_) => plain_failure(),
            Self::InputLost { command, .. } => describe(
                Exit::Failed,
                "input_lost",
                json!({ "commandId": command }),
                format!(
                    "the command is still running: `elevo attach SANDBOX {command}` shows its \
                     output, `elevo kill SANDBOX {command}` stops it"
                ),
            ),
        }
    }
}
