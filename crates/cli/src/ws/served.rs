//! Workspaces of projects on a server: creates, merges, refreshes, lists and
//! deletes them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use elevo_api as api;

use crate::client::{ClientError, Reach, Where};
use crate::confirm;
use crate::errors::{Exit, Problem, Protected};
use crate::format::{count, first_line, short_text};
use crate::global::Global;
use crate::merging::{self, Merging};
use crate::output::{IDENTITY, STRONG};
use crate::project::project_path;
use crate::service::{self, Call, Table, pages, relative};

/// Commands that only a server can run.
#[derive(Debug, Subcommand)]
pub(super) enum Served {
    Merge(Merge),
    Complete(Complete),
    Refresh(Refresh),
}

/// Merge the changes of a workspace into its project, on a server.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes without a conflict land, and are durable when the command returns. The
others are held for review or refused, and the exit code is 8. With --atomic,
either all changes land or none.

Examples:
  elevo ws merge -m \"a better page\"         the workspace of this directory
  elevo ws merge ws-… --dry-run
  elevo ws merge ws-… --atomic || elevo ws refresh ws-…")]
pub(super) struct Merge {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    how: Merging,
}

/// Merge a workspace and delete it, on a server.
#[derive(Debug, Args)]
#[command(after_help = "\
For an agent that has finished. Changes that are held for review stay, without
the workspace. The exit codes are those of `merge`.

Examples:
  elevo ws complete ws-… -m \"done\"")]
pub(super) struct Complete {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    how: Merging,
}

/// Bring the newer head of the project into a workspace, on a server.
#[derive(Debug, Args)]
#[command(after_help = "\
In a conflict, a text file gets conflict markers, and any other file keeps the
workspace's version. The exit code is then 8. Edit these files before the next
merge.

Examples:
  elevo ws refresh                          the workspace of this directory
  elevo ws refresh ws-… --dry-run")]
pub(super) struct Refresh {
    #[command(flatten)]
    which: Which,

    /// Show the result without changing the workspace
    #[arg(long)]
    dry_run: bool,
}

/// A workspace of a server.
#[derive(Debug, Args)]
struct Which {
    /// The workspace; by default the one that contains the current directory
    id: Option<String>,

    #[command(flatten)]
    at: Where,
}

/// When a workspace is refreshed and merged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sync {
    /// Refreshed and merged only on request
    Manual,
    /// Refreshed about every 30 seconds; merged only on request
    Lazy,
    /// Refreshed and merged about every 5 seconds
    Regular,
    /// Refreshed when the project changes, merged soon after a write
    Event,
}

impl From<Sync> for api::Sync {
    fn from(sync: Sync) -> Self {
        let mode = match sync {
            Sync::Manual => api::SyncMode::Manual,
            Sync::Lazy => api::SyncMode::Lazy,
            Sync::Regular => api::SyncMode::Regular,
            Sync::Event => api::SyncMode::Event,
        };
        Self {
            mode,
            seconds: None,
        }
    }
}

/// Options of a new workspace of a project.
#[derive(Debug, Args)]
pub(crate) struct OnProject {
    /// Create a workspace of a project, on a server
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<String>,

    /// Id of the agent that works in it; by default that of the key
    #[arg(long, value_name = "ID", requires = "project")]
    pub(crate) agent: Option<String>,

    /// Make the workspace read-only
    #[arg(long, requires = "project")]
    pub(crate) read_only: bool,

    /// When the workspace is refreshed and merged
    #[arg(long, value_name = "MODE", requires = "project")]
    pub(crate) sync: Option<Sync>,
}

const WORKSPACES: [&str; 3] = ["api", "v1", "workspaces"];

fn workspace_path<'a>(id: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&WORKSPACES, &[id][..], below].concat()
}

/// Runs a command against a server.
fn ask(
    at: &Where,
    global: &Global,
    work: impl FnOnce(&mut Call) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let reach = Reach {
        at: at.clone(),
        json: global.json,
        quiet: global.quiet,
    };
    service::run(&reach, work)
}

pub(super) fn run(served: Served, global: &Global) -> anyhow::Result<Exit> {
    match served {
        Served::Merge(args) => ask(&args.which.at.clone(), global, |call| {
            let id = args.which.find(call)?;
            let path = workspace_path(&id, &["merge"]);
            merging::merge(call, &path, &args.how.wish(), "merging")
        }),
        Served::Complete(args) => ask(&args.which.at.clone(), global, |call| {
            let id = args.which.find(call)?;
            let path = workspace_path(&id, &["complete"]);
            merging::merge(call, &path, &args.how.wish(), "merging")
        }),
        Served::Refresh(args) => ask(&args.which.at.clone(), global, |call| refresh(call, args)),
    }
}

impl Which {
    /// Returns the id of the workspace.
    fn find(self, call: &mut Call) -> anyhow::Result<String> {
        match self.id {
            Some(id) => Ok(id),
            None => around(call, &std::env::current_dir()?),
        }
    }
}

/// Finds the workspace that contains a directory.
fn around(call: &mut Call, here: &Path) -> anyhow::Result<String> {
    let mut found = None;
    pages(call, &WORKSPACES, &[], |_, page: api::WorkspacePage| {
        let is_here = |workspace: &&api::Workspace| {
            let path = workspace.path.as_deref().map(PathBuf::from);
            let path = path.map(|path| path.canonicalize().unwrap_or(path));
            path.is_some_and(|path| here.starts_with(path))
        };
        let around = page.items.iter().find(is_here);
        found = found
            .take()
            .or(around.map(|workspace| workspace.id.clone()));
        let next = page.next.filter(|_| found.is_none());
        Ok((page.items.len(), next))
    })?;
    found.ok_or_else(|| Problem::NoWorkspaceHere(here.into()).into())
}

fn refresh(call: &mut Call, args: Refresh) -> anyhow::Result<Exit> {
    let id = args.which.find(call)?;
    let wish = api::Refresh {
        dry_run: args.dry_run,
    };
    let path = workspace_path(&id, &["refresh"]);
    let asking = call.client.post(&path, &wish);
    let done: api::Refreshed = call.watch("refreshing", asking)?;
    let code = match done.conflicts.is_empty() {
        true => Exit::Done,
        false => Exit::Held,
    };
    if call.output.is_json() {
        call.output.value(&done)?;
        return Ok(code);
    }
    let changed = count(done.changed_count, "path", "paths");
    let text = match (args.dry_run, done.changed_count) {
        (true, _) => format!("{changed} would be refreshed"),
        (false, 0) => "Up to date with ".to_owned(),
        (false, _) => format!("{changed} refreshed to "),
    };
    let mut line = call.output.styled(STRONG, text);
    if !args.dry_run {
        line.extend(call.output.styled(IDENTITY, short_text(&done.head)));
    }
    call.output.line(line)?;
    for path in &done.changed {
        let path = first_line(path).into_owned();
        call.output.line(format!("  {path}"))?;
    }
    let rest = done.changed_count.saturating_sub(done.changed.len() as u64);
    if rest > 0 {
        call.output.line(format!("  … and {rest} more"))?;
    }
    print_conflicts(call, &done, args.dry_run)?;
    Ok(code)
}

/// Prints the conflicts of a refresh, those with markers first.
fn print_conflicts(call: &mut Call, done: &api::Refreshed, dry_run: bool) -> anyhow::Result<()> {
    let conflicts = done.conflicts.iter();
    let (marked, kept): (Vec<_>, Vec<_>) =
        conflicts.partition(|conflict| done.marked.contains(&conflict.path));
    let headings = match dry_run {
        true => [
            "Would get conflict markers:",
            "Would keep the workspace's version:",
        ],
        false => [
            "Has conflict markers; edit it, then merge:",
            "Keeps the workspace's version; change it, then merge:",
        ],
    };
    for (heading, conflicts) in headings.into_iter().zip([marked, kept]) {
        if conflicts.is_empty() {
            continue;
        }
        let heading = call.output.styled(STRONG, heading);
        call.output.line(heading)?;
        for conflict in conflicts {
            print_conflict(call, conflict)?;
        }
    }
    Ok(())
}

fn print_conflict(call: &mut Call, conflict: &api::Conflict) -> anyhow::Result<()> {
    let path = first_line(&conflict.path);
    let why = match conflict.kind.as_str() {
        "removed-by-us" | "removed-by-them" => {
            "removed on one side, changed on the other".to_owned()
        }
        kind => merging::why(kind),
    };
    call.output.line(format!("  {path}: {why}"))?;
    Ok(())
}

/// Properties of a new workspace.
pub(super) struct Wish {
    pub(super) project: String,
    pub(super) on: OnProject,
    pub(super) name: Option<String>,
    pub(super) snapshot: Option<String>,
    pub(super) disk: Option<u64>,
    pub(super) owner: Option<String>,
}

/// Creates a workspace of a project, and prints its directory.
pub(super) fn create(at: &Where, global: &Global, wish: Wish) -> anyhow::Result<Exit> {
    ask(at, global, |call| {
        let on = wish.on;
        let snapshot = wish.snapshot.as_ref();
        let snapshot = crate::project::resolve_some(call, &wish.project, snapshot)?;
        let wish = api::CreateWorkspace {
            project: wish.project,
            agent: on.agent,
            name: wish.name,
            snapshot,
            disk: wish.disk.map(|bytes| bytes.to_string()),
            owner: wish.owner,
            read_only: on.read_only,
            sync: on.sync.map(Into::into).unwrap_or_default(),
        };
        let asking = call.client.create(&WORKSPACES, &wish);
        let made: api::Workspace = call.watch("creating the workspace", asking)?;
        if call.output.is_json() {
            call.output.value(&made)?;
            return Ok(Exit::Done);
        }
        call.output.line(made.path.as_deref().unwrap_or_default())?;
        call.output.finish()?;
        let id = first_line(&made.id);
        call.note(&match made.read_only {
            true => format!("this is {id}, which is read-only"),
            false => format!("this is {id}; `elevo ws merge {id}` merges its changes"),
        });
        Ok(Exit::Done)
    })
}

/// Lists the workspaces of a project, the parked ones, or the parked ones of a
/// project.
pub(super) fn ls(
    at: &Where,
    global: &Global,
    project: Option<&str>,
    parked: bool,
) -> anyhow::Result<Exit> {
    ask(at, global, |call| {
        let mut query = Vec::new();
        query.extend(project.map(|project| ("project", project.to_owned())));
        query.extend(parked.then(|| ("state", "parked".to_owned())));
        let mut table = Table::new(&["ID", "NAME", "AGENT", "STATE", "MERGES", "CREATED", "PATH"]);
        let found = pages(
            call,
            &WORKSPACES,
            &query,
            |call, page: api::WorkspacePage| {
                for workspace in &page.items {
                    match call.output.is_json() {
                        true => call.output.value(workspace)?,
                        false => table.row(row(workspace)),
                    }
                }
                Ok((page.items.len(), page.next))
            },
        )?;
        match (call.output.is_json(), found) {
            (true, _) => {}
            (false, 0) => call.note(&match project.filter(|_| !parked) {
                Some(project) => {
                    let project = first_line(project);
                    format!(
                        "there are no workspaces; `elevo ws create --project {project}` creates one"
                    )
                }
                None => "there are no workspaces".to_owned(),
            }),
            (false, _) => table.print(&mut call.output)?,
        }
        Ok(Exit::Done)
    })
}

fn row(workspace: &api::Workspace) -> [String; 7] {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let state = match (workspace.state, workspace.read_only) {
        (api::WorkspaceState::Parked, _) => "parked",
        (api::WorkspaceState::Live, true) => "read-only",
        (api::WorkspaceState::Live, false) => "live",
    };
    let place = match (&workspace.sandbox, &workspace.expires_at) {
        (Some(sandbox), _) => format!("in {sandbox}"),
        (None, Some(expires)) => format!("expires {}", relative(expires)),
        (None, None) => text(&workspace.path),
    };
    [
        workspace.id.clone(),
        text(&workspace.name),
        text(&workspace.agent),
        state.into(),
        workspace.merges.to_string(),
        relative(&workspace.created_at),
        place,
    ]
}

/// Deletes workspaces of a project, or parked ones. Rejects workspaces of another
/// project, and without a project those that are not parked.
pub(super) fn rm(
    at: &Where,
    global: &Global,
    project: Option<&str>,
    ids: &[String],
    discard: bool,
) -> anyhow::Result<Exit> {
    ask(at, global, |call| {
        let found: Option<api::Project> = match project {
            Some(name) => Some(call.wait(call.client.get(&project_path(name, &[])))?),
            None => None,
        };
        call.each(ids, |call, id| {
            let path = workspace_path(id, &[]);
            let workspace: api::Workspace = call.wait(call.client.get(&path))?;
            let is_parked = workspace.state == api::WorkspaceState::Parked;
            match (&found, project) {
                (Some(found), Some(project)) if workspace.project.as_ref() != Some(&found.id) => {
                    let (id, project) = (id.to_owned(), project.to_owned());
                    return Err(Problem::OtherProject { id, project }.into());
                }
                (None, _) if !is_parked => return Err(Problem::NotParked(id.to_owned()).into()),
                _ => {}
            }
            match project {
                _ if discard || workspace.read_only => {}
                Some(project) => check_merged(call, id, project.to_owned())?,
                None => confirm_parked(call, id)?,
            }
            call.delete("workspaces", id, "Removed")
        })
    })
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
    let reviewed = merge.conflicts.iter().filter(|it| it.review.is_some());
    let reviewed = reviewed.count() as u64;
    let held = merge.conflict_count.saturating_sub(reviewed);
    merge.landed_count + merge.refused_count + held
}
