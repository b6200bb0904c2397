use clap::Args;
use elevo_api as api;
use elevo_workspace::{Error, State, WorkspaceId, Workspaces};
use serde_json::json;

use crate::client::names::{self, Noun};
use crate::client::paths::{project_path, workspace_path};
use crate::client::workspace::run_with_global;
use crate::client::{Call, ClientError, Where, not_removed};
use crate::commands::ws::side::Side;
use crate::errors::{Exit, Protected, WorkspaceProblem};
use crate::global::Global;
use crate::input::confirm;
use crate::local::workspaces::WorkspaceCall;
use crate::output::format::count;
use crate::output::reader_left;

/// Delete workspaces with their files.
#[derive(Debug, Args)]
#[command(after_help = "\
To delete a workspace with changes that are in no snapshot, or that have not
landed in its project, confirm the question on a terminal, or use --discard.
Snapshots stay in the store. If a workspace cannot be deleted, the command
reports it and deletes the others.

Examples:
  elevo ws rm try-1 try-2
  elevo ws rm --discard try-1              discard its unsaved changes
  elevo ws ls --json | jq -r .id | xargs elevo ws rm
  elevo ws rm --project site ws-…
  elevo ws rm --parked sbx-…               a workspace that outlived its sandbox")]
pub(super) struct Rm {
    /// The workspaces
    #[arg(required = true, value_name = "ID")]
    ids: Vec<WorkspaceId>,

    /// Discard changes without a question
    #[arg(long)]
    discard: bool,

    /// Delete workspaces of a project, on a server
    #[arg(long, value_name = "NAME", conflicts_with = "parked")]
    project: Option<String>,

    /// Delete workspaces that a server keeps after the end of their sandbox
    #[arg(long)]
    parked: bool,

    #[command(flatten)]
    at: Where,
}

/// Workspaces of a store to delete.
#[derive(Debug)]
pub(super) struct OfStore {
    ids: Vec<WorkspaceId>,
    discard: bool,
}

/// Workspaces of a server to delete.
#[derive(Debug)]
pub(super) struct OfServer {
    at: Where,
    ids: Vec<String>,
    owner: Owner,
    discard: bool,
}

/// The owner that all workspaces of a deletion must have.
#[derive(Debug)]
enum Owner {
    /// The project with this name.
    Project(String),
    /// The server, which keeps the workspaces after the end of their sandbox.
    Server,
}

impl Rm {
    /// Decides where the workspaces are: on a server if `--project` or
    /// `--parked` is given, otherwise in a store.
    pub(super) fn side(self) -> Side<OfStore, OfServer> {
        let owner = match (self.project, self.parked) {
            (Some(project), _) => Owner::Project(project),
            (None, true) => Owner::Server,
            (None, false) => {
                return Side::Store(OfStore {
                    ids: self.ids,
                    discard: self.discard,
                });
            }
        };
        Side::Server(OfServer {
            at: self.at,
            ids: self.ids.iter().map(ToString::to_string).collect(),
            owner,
            discard: self.discard,
        })
    }
}

pub(super) fn run_on_store(call: &mut WorkspaceCall, args: &OfStore) -> anyhow::Result<Exit> {
    let workspaces = call.open_to_read()?;
    let mut first = None;
    for id in &args.ids {
        match remove(call, &workspaces, id, args.discard) {
            Ok(()) => {}
            Err(error) if reader_left(&error) => return Err(error),
            Err(error) => {
                let error = error.context(not_removed(id.as_str()));
                let failed = call.session.report(&error)?;
                first.get_or_insert(failed);
            }
        }
    }
    // Stops the processes that served snapshots for these workspaces.
    workspaces.tidy()?;
    Ok(first.unwrap_or(Exit::Done))
}

fn remove(
    call: &mut WorkspaceCall,
    workspaces: &Workspaces,
    id: &WorkspaceId,
    discard: bool,
) -> anyhow::Result<()> {
    call.check_free(id)?;
    if !discard {
        check_kept(call, workspaces, id)?;
    }
    call.watch("deleting", |_| workspaces.remove(id))?;
    let output = &mut call.session.output;
    match output.is_json() {
        true => output.value(&json!({ "removed": id.as_str() }))?,
        false => output.line(format!("Removed {id}"))?,
    }
    Ok(())
}

/// Returns an error if the workspace has changes that are in no snapshot, unless
/// the user confirms the deletion.
fn check_kept(
    call: &WorkspaceCall,
    workspaces: &Workspaces,
    id: &WorkspaceId,
) -> anyhow::Result<()> {
    if workspaces.get(id)?.state == State::Parked {
        return Ok(());
    }
    let changes = call.watch("looking", |progress| workspaces.changes(id, progress));
    let changes = changes.map_err(|source| match source {
        busy @ (Error::Busy(_) | Error::InUse { .. }) => anyhow::Error::from(busy),
        source => {
            let (id, source) = (id.to_string(), source.into());
            Protected::ChangesUnknown { id, source }.into()
        }
    })?;
    if changes.is_empty() {
        return Ok(());
    }
    let question = format!("`{id}` has changes that are in no snapshot. Delete it with them?");
    match call.session.ask(&question)? {
        Some(true) => Ok(()),
        _ => Err(Protected::Unsaved(id.to_string()).into()),
    }
}

/// Deletes workspaces of a server. Rejects those with another owner.
pub(super) fn run_on_server(args: &OfServer, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| match &args.owner {
        Owner::Project(name) => {
            let project: api::Project = call.wait(call.client.get(&project_path(name, &[])))?;
            call.each(&args.ids, |call, text| {
                let workspace = find(call, text)?;
                let id = &workspace.id;
                if workspace.project.as_ref() != Some(&project.id) {
                    let (id, project) = (id.to_owned(), name.clone());
                    return Err(WorkspaceProblem::OtherProject { id, project }.into());
                }
                if !args.discard && !workspace.read_only {
                    check_merged(call, id, name.clone())?;
                }
                call.delete("workspaces", id, "Removed")
            })
        }
        Owner::Server => call.each(&args.ids, |call, text| {
            let workspace = find(call, text)?;
            let id = &workspace.id;
            if workspace.state != api::WorkspaceState::Parked {
                return Err(WorkspaceProblem::NotParked(id.to_owned()).into());
            }
            if !args.discard && !workspace.read_only {
                confirm_parked(call, id)?;
            }
            call.delete("workspaces", id, "Removed")
        }),
    })
}

fn find(call: &Call, text: &str) -> anyhow::Result<api::Workspace> {
    let id = names::find(call, Noun::Workspace, text)?;
    Ok(call.wait(call.client.get(&workspace_path(&id, &[])))?)
}

/// Returns an error if the workspace has changes that have not landed, unless the
/// user confirms the deletion.
fn check_merged(call: &Call, id: &str, project: String) -> anyhow::Result<()> {
    let wish = api::Merge {
        dry_run: true,
        ..api::Merge::default()
    };
    let path = workspace_path(id, &["merge"]);
    let asked = call.watch("looking", call.client.post(&path, &wish));
    let merge: api::MergeResult = match asked {
        Ok(merge) => merge,
        Err(error) if is_unknown(&error) => {
            let (id, source) = (id.to_owned(), error.into());
            return Err(Protected::ChangesUnknown { id, source }.into());
        }
        Err(error) => return Err(error.into()),
    };
    let changes = unmerged(&merge);
    if changes == 0 {
        return Ok(());
    }
    let text = count(changes, "change that has", "changes that have");
    let question = format!("`{id}` has {text} not landed. Delete it with them?");
    let id = id.to_owned();
    let refusal = Protected::Unmerged {
        id,
        project,
        changes,
    };
    confirmed(call, &question, refusal)
}

/// Returns an error unless the user confirms the deletion of the only copy of the
/// work.
fn confirm_parked(call: &Call, id: &str) -> anyhow::Result<()> {
    let question = format!("`{id}` has the only copy of its work. Delete it?");
    confirmed(call, &question, Protected::Parked(id.to_owned()))
}

/// Asks on the terminal. Returns `refusal` without a terminal, or if the answer
/// is no.
fn confirmed(call: &Call, question: &str, refusal: Protected) -> anyhow::Result<()> {
    let answer = match call.output.is_json() {
        true => None,
        false => confirm::ask(question)?,
    };
    match answer {
        Some(true) => Ok(()),
        _ => Err(refusal.into()),
    }
}

/// Whether a valid request failed, so that the changes are unknown.
fn is_unknown(error: &ClientError) -> bool {
    let status = error.code().map(|code| code.http());
    matches!(status, Some(409 | 422 | 500))
}

/// Number of changes that would be lost with a workspace: they would land, would
/// be held, or were refused. An open review has its own copy of its change.
fn unmerged(merge: &api::MergeResult) -> u64 {
    let reviewed = merge.conflicts.iter().filter(|it| it.review_id.is_some());
    let reviewed = reviewed.count() as u64;
    let held = merge.conflict_count.saturating_sub(reviewed);
    merge.landed_count + merge.refused_count + held
}
