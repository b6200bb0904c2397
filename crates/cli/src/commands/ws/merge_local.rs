//! `elevo ws merge` of a workspace of a store on this machine.

use elevo_api as api;
use elevo_engine::Repository;
use elevo_merge::{Conflict, Landed, TreeMerge};
use elevo_objects::{Snapshot, SnapshotId};
use elevo_workspace::{NeverFreeze, WorkspaceId, Workspaces};
use serde_json::json;

use crate::client::merge::conflict_reason;
use crate::errors::{Exit, SnapshotProblem, WorkspaceProblem};
use crate::local::merge::{Take, head_info, merge_work, resolve};
use crate::local::revision::{HEAD, reference_at};
use crate::local::wait::wait;
use crate::local::workspaces::WorkspaceCall;
use crate::options::snapshot::SnapshotOptions;
use crate::output::format::{count, path_text, short};
use crate::output::saved_snapshot::describe_loss;
use crate::output::{ADDED, PLACE, REMOVED};

/// A merge of a workspace of a store into `head`.
#[derive(Debug)]
pub(super) struct OfStore {
    pub(super) id: Option<WorkspaceId>,
    pub(super) how: api::Merge,
    pub(super) take: Option<Take>,
    pub(super) rm: bool,
}

/// The files of a workspace that a merge reads.
struct Work {
    /// The repository that has the files.
    repository: Repository,
    files: Snapshot,
    /// The snapshot of the files, unless this is a dry run.
    id: Option<SnapshotId>,
}

pub(super) fn run(call: &mut WorkspaceCall, args: OfStore) -> anyhow::Result<Exit> {
    let repository = call.session.write(&call.location)?;
    let workspaces = call.open(repository.clone(), None, false)?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    call.check_free(&id)?;
    let head = reference_at(&repository, HEAD)?.ok_or(SnapshotProblem::NothingCommitted)?;
    let start = workspaces.get(&id)?.start;
    let start = wait(repository.snapshot(start))?;
    let work = work(call, &workspaces, &repository, &id, args.how.dry_run)?;
    let into = wait(repository.snapshot(head))?;
    let merging = merge_work(&work.repository, &start, &into, &work.files, &args.how);
    let mut merge = wait(merging)?;
    let resolved = match args.take {
        Some(take) => wait(resolve(&mut merge, take))?,
        None => Vec::new(),
    };
    if !merge.conflicts.is_empty() {
        let conflicts = merge.conflicts.iter().map(explain).collect();
        let id = id.to_string();
        return Err(WorkspaceProblem::Conflicts { id, conflicts }.into());
    }
    let changed = wait(merge.tree.tree())? != into.tree;
    let Some(work) = work.id else {
        return print(call, &id, Outcome::Rehearsed, &merge, &resolved);
    };
    let outcome = match changed {
        true => {
            let info = head_info(head, id.as_str(), call.session.author(), args.how.message);
            Outcome::Merged(wait(merge.tree.commit(info))?)
        }
        false => Outcome::Nothing,
    };
    workspaces.set_start(&id, work)?;
    print(call, &id, outcome, &merge, &resolved)?;
    if args.rm {
        call.watch("deleting", |_| workspaces.remove(&id))?;
        workspaces.tidy()?;
        if !call.session.output.is_json() {
            call.session.output.line(format!("Removed {id}"))?;
        }
    }
    Ok(Exit::Done)
}

/// Reads the files of a workspace. Creates a snapshot of them, unless this is a
/// dry run.
fn work(
    call: &WorkspaceCall,
    workspaces: &Workspaces,
    repository: &Repository,
    id: &WorkspaceId,
    dry_run: bool,
) -> anyhow::Result<Work> {
    if dry_run {
        let contents = call.watch("reading", |progress| workspaces.contents(id, progress))?;
        let base = wait(repository.snapshot(contents.base))?;
        return Ok(Work {
            repository: contents.repository().clone(),
            files: Snapshot {
                tree: contents.tree,
                times: None,
                ..base
            },
            id: None,
        });
    }
    let info = SnapshotOptions::default().into_info(&call.session, Vec::new(), None);
    let taken = call.watch("reading", |progress| {
        workspaces.snapshot(id, info, &NeverFreeze, progress)
    })?;
    for loss in &taken.losses {
        call.session.note(&describe_loss(loss));
    }
    Ok(Work {
        repository: repository.clone(),
        files: wait(repository.snapshot(taken.id))?,
        id: Some(taken.id),
    })
}

/// The path of a conflict, and its reason.
fn explain(conflict: &Conflict) -> (String, String) {
    let reason = match conflict.kind.name() {
        "removed-in-project" => "head removed it, the workspace changed it".to_owned(),
        "removed-in-workspace" => "the workspace removed it, head changed it".to_owned(),
        name => conflict_reason(name),
    };
    (path_text(conflict.path.as_bytes()), reason)
}

/// The result of a merge without conflicts.
#[derive(Clone, Copy)]
enum Outcome {
    /// The new head.
    Merged(SnapshotId),
    /// Head has all changes already.
    Nothing,
    Rehearsed,
}

fn print(
    call: &mut WorkspaceCall,
    id: &WorkspaceId,
    outcome: Outcome,
    merge: &TreeMerge,
    resolved: &[Conflict],
) -> anyhow::Result<Exit> {
    let output = &mut call.session.output;
    if output.is_json() {
        let landed = merge
            .landed
            .iter()
            .map(|landed| json!({ "path": landed.path.to_string(), "status": status(landed).1 }));
        let resolved = resolved.iter().map(|it| it.path.to_string());
        output.value(&json!({
            "workspace": id.as_str(),
            "snapshot": match outcome {
                Outcome::Merged(head) => Some(head.to_string()),
                Outcome::Nothing | Outcome::Rehearsed => None,
            },
            "dry_run": matches!(outcome, Outcome::Rehearsed),
            "landed": landed.collect::<Vec<_>>(),
            "resolved": resolved.collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Done);
    }
    let changes = count(merge.landed.len() as u64, "change", "changes");
    output.line(match outcome {
        Outcome::Merged(head) => format!("Merged {changes} of {id} into head, now {}", short(head)),
        Outcome::Nothing => format!("Nothing to merge: head has the work of {id}"),
        Outcome::Rehearsed => format!("{changes} of {id} would be merged into head"),
    })?;
    for landed in &merge.landed {
        let (letter, _) = status(landed);
        let style = match letter {
            "A" => ADDED,
            "D" => REMOVED,
            _ => PLACE,
        };
        let letter = output.styled(style, letter);
        let path = path_text(landed.path.as_bytes());
        output.line([&letter[..], b"\t", path.as_bytes()].concat())?;
    }
    for conflict in resolved {
        let (path, reason) = explain(conflict);
        output.line(format!("resolved {path}: {reason}"))?;
    }
    if let Outcome::Merged(_) = outcome {
        call.session
            .note("`elevo checkout head` brings the new head into the working directory");
    }
    Ok(Exit::Done)
}

/// The letter of a change, and its name in JSON.
fn status(landed: &Landed) -> (&'static str, &'static str) {
    match (&landed.before, &landed.after) {
        (None, _) => ("A", "added"),
        (_, None) => ("D", "removed"),
        _ => ("M", "modified"),
    }
}
