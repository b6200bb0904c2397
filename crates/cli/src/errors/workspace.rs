use std::io;
use std::path::PathBuf;

use elevo_workspace::InvalidId;
use serde_json::{Value, json};

use super::described::{Advice, Described, describe, path_details};
use super::exit::Exit;
use crate::output::format::count;

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
    #[error(transparent)]
    InvalidName(InvalidId),
    #[error("the workspace `{id}` has {} with head: {}", count(.conflicts.len() as u64, "conflict", "conflicts"), conflict_list(.conflicts))]
    Conflicts {
        id: String,
        /// Paths, and why each has a conflict.
        conflicts: Vec<(String, String)>,
    },
    #[error("more than one workspace id starts with `{text}`: {}", .candidates.join(", "))]
    Ambiguous {
        text: String,
        candidates: Vec<String>,
    },
    #[error("{} is not in a workspace", .0.display())]
    NoWorkspaceHere(PathBuf),
    #[error("the workspace `{id}` does not belong to the project `{project}`")]
    OtherProject { id: String, project: String },
    #[error(
        "a server holds this store, and you could not see a rootless workspace that the server \
         creates"
    )]
    PrivateOfServer,
    #[error("an option of the command works only for workspaces of a store on this machine")]
    OnlyInStore,
    #[error("an option of the command works only for workspaces on a server")]
    OnlyOnServer,
    #[error("cannot mount the workspace on {} in a user namespace", .path.display())]
    Enter { path: PathBuf, source: io::Error },
}

impl WorkspaceProblem {
    /// Describes an option that works only for the other kind of workspaces.
    fn describe_option(&self) -> Described {
        let advice = match self {
            Self::OnlyInStore => {
                "for a workspace on a server, leave out paths, --renames, --context and --label"
            }
            _ => {
                "leave out --from, --name and --count, or name a server with --server or --context"
            }
        };
        describe(Exit::Usage, "option_unsupported", Value::Null, advice)
    }

    pub(super) fn describe(&self) -> Described {
        match self {
            Self::InSandbox(id) => describe(
                Exit::Conflict,
                "workspace_in_sandbox",
                json!({ "workspace": id }),
                format!("`elevo sandbox rm {id}` deletes the sandbox and the workspace"),
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
            Self::InvalidName(_) => {
                describe(Exit::Usage, "workspace_invalid", Value::Null, Advice::None)
            }
            Self::Conflicts { id, conflicts } => describe_conflicts(id, conflicts),
            Self::Ambiguous { text, candidates } => describe(
                Exit::NotFound,
                "workspace_ambiguous",
                json!({ "workspace": text, "candidates": candidates }),
                "give more of the id",
            ),
            Self::NoWorkspaceHere(path) => describe(
                Exit::NotFound,
                "workspace_not_found",
                path_details("directory", path),
                "name a workspace; `elevo ws ls` lists those of a store, and with --project NAME \
                 those of a project",
            ),
            Self::OtherProject { id, project } => describe(
                Exit::NotFound,
                "workspace_not_found",
                json!({ "workspace": id, "project": project }),
                format!("`elevo ws ls --project {project}` lists its workspaces"),
            ),
            Self::OnlyInStore | Self::OnlyOnServer => self.describe_option(),
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

fn conflict_list(conflicts: &[(String, String)]) -> String {
    let one = |(path, why): &(String, String)| format!("`{path}` ({why})");
    conflicts.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn describe_conflicts(id: &str, conflicts: &[(String, String)]) -> Described {
    let one = |(path, why): &(String, String)| json!({ "path": path, "reason": why });
    let details: Vec<_> = conflicts.iter().map(one).collect();
    describe(
        Exit::Conflict,
        "merge_conflict",
        json!({ "workspace": id, "conflicts": details }),
        format!(
            "nothing was merged; edit these files in the workspace until they have the changes of \
             both sides (`elevo cat PATH` prints the version of head), then run `elevo ws merge \
             {id} --take workspace`; `--take head` keeps the version of head"
        ),
    )
}
