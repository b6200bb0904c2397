//! Errors that protect work: a command would act on a directory that the user
//! did not mean, or delete the only copy of a change.

use std::path::Path;

use elevo_workspace::{WorkspaceId, WorkspaceLocation};
use serde_json::json;

use super::described::{Advice, Described, describe, lossy};
use super::exit::Exit;
use crate::local::layout;
use crate::output::format::count;

/// Why a command was rejected to protect work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Protected {
    #[error("this directory is {}", place(.0))]
    Inside(WorkspaceLocation),
    #[error("the workspace `{0}` has changes that are in no snapshot")]
    Unsaved(String),
    #[error("the workspace `{id}` has {} not landed", count(*.changes, "change that has", "changes that have"))]
    Unmerged {
        id: String,
        project: String,
        changes: u64,
    },
    #[error("the workspace `{0}` is parked because it has the only copy of its work")]
    Parked(String),
    #[error("cannot find out whether the workspace `{id}` has changes that would be lost")]
    ChangesUnknown { id: String, source: anyhow::Error },
    #[error("the deletion of the project was not confirmed")]
    NotConfirmed { project: String, asked: bool },
}

impl Protected {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::Inside(inside) => of_inside(inside),
            Self::Unsaved(id) => describe(
                Exit::Conflict,
                "unsaved_changes",
                json!({ "workspace": id }),
                format!(
                    "`elevo ws status {id}` lists them and `elevo ws snapshot {id}` saves them; \
                 `elevo ws rm --discard {id}` deletes the workspace and discards them"
                ),
            ),
            Self::Unmerged {
                id,
                project,
                changes,
            } => describe(
                Exit::Conflict,
                "unmerged_changes",
                json!({ "workspace": id, "changes": changes }),
                format!(
                    "`elevo ws merge {id} --dry-run` lists them and `elevo ws merge {id}` lands them; \
                 `elevo ws rm --project {project} --discard {id}` deletes the workspace and discards them"
                ),
            ),
            Self::Parked(id) => describe(
                Exit::Conflict,
                "parked_work",
                json!({ "workspace": id }),
                format!(
                    "`elevo sandbox create --workspace {id}` continues in it; \
                 `elevo ws rm --parked --discard {id}` deletes it with its work"
                ),
            ),
            Self::ChangesUnknown { id, .. } => describe(
                Exit::Conflict,
                "changes_unknown",
                json!({ "workspace": id }),
                "--discard deletes the workspace without this check",
            ),
            Self::NotConfirmed { project, asked } => describe(
                Exit::Usage,
                "not_confirmed",
                json!({ "project": project }),
                match asked {
                    true => Advice::None,
                    false => {
                        format!("`elevo project rm --yes {project}` deletes it without a question")
                            .into()
                    }
                },
            ),
        }
    }
}

/// Describes where the current directory is.
fn place(inside: &WorkspaceLocation) -> String {
    match &inside.id {
        Some(id) => format!("inside the workspace `{id}`"),
        None => format!("among the workspaces in {}", inside.root.display()),
    }
}

fn of_inside(inside: &WorkspaceLocation) -> Described {
    let id = inside.id.as_ref().map(WorkspaceId::as_str);
    describe(
        Exit::Usage,
        "inside_workspace",
        json!({ "workspace": id, "workspaces": lossy(&inside.root) }),
        match id {
            Some(id) => advice(id, &inside.root),
            None => "leave this directory, or name a store with --store PATH".to_owned(),
        },
    )
}

/// Names the commands to use for this workspace.
fn advice(id: &str, root: &Path) -> String {
    if is_of_server(root) {
        return match id.starts_with("sbx-") {
            true => format!(
                "`elevo sandbox diff {id}` lists the changes, `elevo sandbox snapshot {id}` saves them"
            ),
            false => "`elevo ws merge` lands the changes in the project, `elevo ws merge \
                      --dry-run` lists them"
                .to_owned(),
        };
    }
    match layout::store_beside(root) {
        Some(store) => format!(
            "`elevo ws status {id}` lists the changes, `elevo ws snapshot {id} -m TEXT` saves \
             them; for the store itself, add --store {}",
            store.display()
        ),
        None => format!(
            "`elevo ws snapshot {id} -m TEXT --store PATH --workspaces {}` saves the changes; for \
             the store itself, add --store PATH",
            root.display()
        ),
    }
}

/// Whether a server created these workspaces: it has a directory for each
/// tenant, named by 32 hexadecimal digits.
fn is_of_server(root: &Path) -> bool {
    let name = root.file_name().unwrap_or_default().as_encoded_bytes();
    name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_the_workspace() {
        let tenant = "/data/workspaces/00000000000000000000000000000000";
        for (id, root, command) in [
            ("sbx-1", tenant, "`elevo sandbox snapshot sbx-1`"),
            ("ws-1", tenant, "`elevo ws merge`"),
            ("one", "/elsewhere", "--workspaces /elsewhere"),
        ] {
            let advice = advice(id, Path::new(root));
            assert!(advice.contains(command), "{advice}");
        }
    }
}
