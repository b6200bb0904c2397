use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::described::{Described, describe, path_details};
use super::exit::Exit;

/// Errors of finding and entering workspaces.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceProblem {
    #[error("the workspace `{0}` belongs to a sandbox")]
    InSandbox(String),
    #[error("the workspace `{0}` belongs to a project")]
    InProject(String),
    #[error("the workspace `{0}` is parked on the server")]
    ParkedOnServer(String),
    #[error("the workspace `{0}` is not parked")]
    NotParked(String),
    #[error("{} is not in a workspace of this server", .0.display())]
    NoWorkspaceHere(PathBuf),
    #[error("the workspace `{id}` does not belong to the project `{project}`")]
    OtherProject { id: String, project: String },
    #[error(
        "this store is held by a server, and a rootless workspace created there would be invisible to you"
    )]
    PrivateOfServer,
    #[error("cannot mount the workspace on {} in a user namespace", .path.display())]
    Enter { path: PathBuf, source: io::Error },
}

impl WorkspaceProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::InSandbox(id) => describe(
                Exit::Conflict,
                "workspace_in_sandbox",
                json!({ "workspace": id }),
                format!("`elevo sandbox rm {id}` deletes both"),
            ),
            Self::InProject(id) => describe(
                Exit::Conflict,
                "workspace_in_project",
                json!({ "workspace": id }),
                format!(
                    "`elevo ws merge --rm {id}` merges and deletes it, `elevo ws rm --project NAME \
                     --discard {id}` deletes it with its unmerged changes"
                ),
            ),
            Self::ParkedOnServer(id) => describe(
                Exit::Conflict,
                "workspace_parked",
                json!({ "workspace": id }),
                format!(
                    "`elevo sandbox create --workspace {id}` continues in it, `elevo ws rm \
                     --parked {id}` deletes it"
                ),
            ),
            Self::NotParked(id) => describe(
                Exit::Conflict,
                "workspace_not_parked",
                json!({ "workspace": id }),
                "`elevo ws ls --parked` lists the parked workspaces",
            ),
            Self::NoWorkspaceHere(path) => describe(
                Exit::NotFound,
                "workspace_not_found",
                path_details("directory", path),
                "name a workspace; `elevo ws ls --project NAME` lists the workspaces of a project",
            ),
            Self::OtherProject { id, project } => describe(
                Exit::NotFound,
                "workspace_not_found",
                json!({ "workspace": id, "project": project }),
                format!("`elevo ws ls --project {project}` lists its workspaces"),
            ),
            Self::PrivateOfServer => describe(
                Exit::Usage,
                "provider_unsupported",
                Value::Null,
                "leave out --provider, or use a store that no server holds",
            ),
            Self::Enter { path, .. } => describe(
                Exit::Failed,
                "namespace_refused",
                path_details("path", path),
                "`elevo doctor` shows what the machine lacks",
            ),
        }
    }
}
