//! Workspaces on projects, which a server has: making, merging and refreshing
//! them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use elevo_api as api;

use crate::args::Global;
use crate::client::{ClientError, Reach, Where};
use crate::confirm;
use crate::errors::{Exit, Problem, Protected};
use crate::format::{count, first_line, short_text};
use crate::merging::{self, Merging};
use crate::output::{IDENTITY, STRONG};
use crate::project::project_path;
use crate::service::{self, Call, Table, pages, relative};

/// Commands that a server is asked for.
#[derive(Debug, Subcommand)]
pub(super) enum Served {
    Merge(Merge),
    Complete(Complete),
    Refresh(Refresh),
}

/// Merge what a workspace changed into its project; asks a server.
#[derive(Debug, Args)]
#[command(after_help = "\
What can land lands, and is durable when this returns; what cannot is held for
review or refused, and the exit code is 8. With --atomic it is all or nothing.

Examples:
  elevo ws merge -m \"a better page\"         of the workspace around this directory
  elevo ws merge ws-… --dry-run
  elevo ws merge ws-… --atomic || elevo ws refresh ws-…")]
pub(super) struct Merge {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    how: Merging,
}

/// Merge a workspace and remove it; asks a server.
#[derive(Debug, Args)]
#[command(after_help = "\
For an agent that is done. What is held for review stays there without the
workspace. Ends as `merge` does.

Examples:
  elevo ws complete ws-… -m \"done\"")]
pub(super) struct Complete {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    how: Merging,
}

/// Bring what others have merged into a workspace; asks a server.
#[derive(Debug, Args)]
#[command(after_help = "\
Where both changed the same, the workspace keeps its own version, and its next
merge settles it.

Examples:
  elevo ws refresh                          of the workspace around this directory
  elevo ws refresh ws-… --dry-run")]
pub(super) struct Refresh {
    #[command(flatten)]
    which: Which,

    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
}

/// A workspace of a server.
#[derive(Debug, Args)]
struct Which {
    /// The workspace; by default the one that this directory is in
    id: Option<String>,

    #[command(flatten)]
    at: Where,
}

/// When a workspace is brought up to date, and merged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sync {
    /// Only when asked
    Manual,
    /// Brought up to date every 30 seconds or so; merged when asked
    Lazy,
    /// Brought up to date and merged every 5 seconds or so
    Regular,
    /// Brought up to date when the project changes, merged soon after it was written to
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

/// How a workspace on a project is made.
#[derive(Debug, Args)]
pub(crate) struct OnProject {
    /// Make it on a project: asks a server
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<String>,

    /// The agent that works in it, by id; the key's by default
    #[arg(long, value_name = "ID", requires = "project")]
    pub(crate) agent: Option<String>,

    /// Let nothing be written to it
    #[arg(long, requires = "project")]
    pub(crate) read_only: bool,

    /// How it keeps up with the project
    #[arg(long, value_name = "MODE", requires = "project")]
    pub(crate) sync: Option<Sync>,
}

const WORKSPACES: [&str; 3] = ["api", "v1", "workspaces"];

fn workspace_path<'a>(id: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&WORKSPACES, &[id][..], below].concat()
}

/// Runs what a server is asked for.
fn ask(
    at: &Where,
    global: &Global,
    work: impl FnOnce(&mut Call) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let reach = Reach {
        at: at.clone(),
        json: global.json,
        quiet: global.quiet,
    };
    service::run(&reach, work)
}

pub(super) fn run(served: Served, global: &Global) -> anyhow::Result<ExitCode> {
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
    /// Its id.
    fn find(self, call: &mut Call) -> anyhow::Result<String> {
        match self.id {
            Some(id) => Ok(id),
            None => around(call, &std::env::current_dir()?),
        }
    }
}

/// The workspace that a directory is in.
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

fn refresh(call: &mut Call, args: Refresh) -> anyhow::Result<ExitCode> {
    let id = args.which.find(call)?;
    let wish = api::Refresh {
        dry_run: args.dry_run,
    };
    let path = workspace_path(&id, &["refresh"]);
    let asking = call.client.post(&path, &wish);
    let done: api::Refreshed = call.watch("bringing it up to date", asking)?;
    let code = match done.conflicts.is_empty() {
        true => ExitCode::SUCCESS,
        false => Exit::Held.into(),
    };
    if call.output.is_json() {
        call.output.value(&done)?;
        return Ok(code);
    }
    let changed = count(done.changed_count, "path", "paths");
    let text = match (args.dry_run, done.changed_count) {
        (true, _) => format!("{changed} would be brought up to date"),
        (false, 0) => "Up to date with ".to_owned(),
        (false, _) => format!("{changed} brought up to date with "),
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

/// The conflicts of a refresh, those with markers first.
fn print_conflicts(call: &mut Call, done: &api::Refreshed, dry_run: bool) -> anyhow::Result<()> {
    let conflicts = done.conflicts.iter();
    let (marked, kept): (Vec<_>, Vec<_>) =
        conflicts.partition(|conflict| done.marked.contains(&conflict.path));
    let headings = match dry_run {
        true => ["Would get conflict markers:", "Would stay as it is here:"],
        false => [
            "Has conflict markers now; edit it, then merge:",
            "Stays as it is here; change it, then merge:",
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

/// What is asked for of a new workspace besides its project.
pub(super) struct Wish {
    pub(super) project: String,
    pub(super) on: OnProject,
    pub(super) name: Option<String>,
    pub(super) snapshot: Option<String>,
    pub(super) disk: Option<u64>,
    pub(super) owner: Option<String>,
}

/// Makes a workspace on a project, and prints its directory.
pub(super) fn create(at: &Where, global: &Global, wish: Wish) -> anyhow::Result<ExitCode> {
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
        let made: api::Workspace = call.watch("making the workspace", asking)?;
        if call.output.is_json() {
            call.output.value(&made)?;
            return Ok(ExitCode::SUCCESS);
        }
        call.output.line(made.path.as_deref().unwrap_or_default())?;
        call.output.finish()?;
        let id = first_line(&made.id);
        call.note(&match made.read_only {
            true => format!("this is {id}, which cannot be written to"),
            false => format!("this is {id}; `elevo ws merge {id}` brings its changes back"),
        });
        Ok(ExitCode::SUCCESS)
    })
}

/// Lists the workspaces of a project, those that are parked, or those that are
/// both.
pub(super) fn ls(
    at: &Where,
    global: &Global,
    project: Option<&str>,
    parked: bool,
) -> anyhow::Result<ExitCode> {
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
                    format!("there are none; `elevo ws create --project {project}` makes one")
                }
                None => "there are none".to_owned(),
            }),
            (false, _) => table.print(&mut call.output)?,
        }
        Ok(ExitCode::SUCCESS)
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

/// Removes workspaces of a project and nothing of another, or parked ones and
/// none that are in use.
pub(super) fn rm(
    at: &Where,
    global: &Global,
    project: Option<&str>,
    ids: &[String],
    discard: bool,
) -> anyhow::Result<ExitCode> {
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

/// Refuses to remove what has not landed, unless a person says so.
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
    let question = format!("`{id}` has {text} not landed. Remove it with them?");
    let id = id.to_owned();
    let refusal = Protected::Unmerged {
        id,
        project,
        changes,
    };
    confirmed(call, &question, refusal)
}

/// Refuses to remove work that is nowhere else, unless a person says so.
fn confirm_parked(call: &Call, id: &str) -> anyhow::Result<()> {
    let question = format!("The work in `{id}` is nowhere else. Remove it?");
    confirmed(call, &question, Protected::Parked(id.to_owned()))
}

/// Asks a person; fails with `refusal` if there is none, or if the answer is no.
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

/// Whether the server could not look, though it was asked as it should be.
fn is_unknown(error: &ClientError) -> bool {
    let status = error.code().map(|code| code.http());
    matches!(status, Some(409 | 422 | 500))
}

/// Changes that go with a workspace: they would land, would be held, or were
/// refused. A review that is open has its own copy of what it is about.
fn unmerged(merge: &api::MergeResult) -> u64 {
    let reviewed = merge.conflicts.iter().filter(|it| it.review.is_some());
    let reviewed = reviewed.count() as u64;
    let held = merge.conflict_count.saturating_sub(reviewed);
    merge.landed_count + merge.refused_count + held
}
