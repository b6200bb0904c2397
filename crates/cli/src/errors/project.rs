use std::path::PathBuf;

use serde_json::{Value, json};

use super::described::{Described, describe, path_details};
use super::exit::Exit;

/// Errors of projects and reviews.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectProblem {
    #[error("no step of `{project}` has the snapshot or number `{text}`")]
    UnknownStep { project: String, text: String },
    #[error("{} is not a valid policy", .path.display())]
    PolicyUnreadable {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{} is empty, so it is not a tar archive", .0.display())]
    EmptyTar(PathBuf),
    #[error("an import of a tar archive cannot have a message")]
    MessageOfTar,
    #[error("`{0}` names no file")]
    NoPath(String),
    #[error("nothing was sent: {why}")]
    NotSent { why: &'static str, kept: PathBuf },
    #[error("the conflict cannot be edited as text")]
    NotEditable,
}

impl ProjectProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::UnknownStep { project, text } => describe(
                Exit::NotFound,
                "snapshot_not_found",
                json!({ "project": project, "snapshot": text }),
                format!("`elevo project log {project}` lists the steps"),
            ),
            Self::PolicyUnreadable { path, .. } => describe(
                Exit::Usage,
                "policy_invalid",
                path_details("path", path),
                "`elevo project policy show NAME` prints a policy to start from",
            ),
            Self::EmptyTar(path) => describe(
                Exit::Usage,
                "not_a_tar",
                path_details("path", path),
                "the project was not changed; check whether the program that wrote the archive \
                 failed",
            ),
            Self::MessageOfTar => describe(
                Exit::Usage,
                "usage",
                Value::Null,
                "leave out -m, or import a directory",
            ),
            Self::NoPath(project) => describe(
                Exit::Usage,
                "path_invalid",
                json!({ "project": project }),
                format!(
                    "name a file with NAME[@REV]:PATH; `elevo project files {project}` lists \
                     the files"
                ),
            ),
            Self::NotSent { kept, .. } => describe(
                Exit::Failed,
                "not_sent",
                path_details("path", kept),
                format!("your edited text is in {}", kept.display()),
            ),
            Self::NotEditable => describe(
                Exit::Usage,
                "not_editable",
                Value::Null,
                "choose a side with --take project or --take workspace, or send a file with --file FILE",
            ),
        }
    }
}
