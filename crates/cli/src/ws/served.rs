//! Workspaces on projects, which a server has: making, merging and refreshing
//! them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use elevo_api as api;

use crate::args::Global;
use crate::client::{Reach, Where};
use crate::errors::{Exit, Problem};
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
    if !done.conflicts.is_empty() {
        let heading = call.output.styled(STRONG, "Kept as it is here:");
        call.output.line(heading)?;
    }
    for conflict in &done.conflicts {
        let path = first_line(&conflict.path);
        let why = match conflict.kind.as_str() {
            "removed-by-us" | "removed-by-them" => {
                "removed on one side, changed on the other".to_owned()
            }
            kind => merging::why(kind),
        };
        call.output.line(format!("  {path}: {why}"))?;
    }
    Ok(code)
}

/// What is asked for of a new workspace besides its project.
pub(super) struct Wish {
    pub(super) project: String,
    pub(super) on: OnProject,
    pub(super) name: Option<String>,
    pub(super) snapshot: Option<String>,
    pub(super) disk: Option<u64>,
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

/// Lists the workspaces of a project.
pub(super) fn ls(at: &Where, global: &Global, project: &str) -> anyhow::Result<ExitCode> {
    ask(at, global, |call| {
        let query = [("project", project.to_owned())];
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
            (false, 0) => {
                let project = first_line(project);
                call.note(&format!(
                    "there are none; `elevo ws create --project {project}` makes one"
                ));
            }
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
    let place = match &workspace.sandbox {
        Some(sandbox) => format!("in {sandbox}"),
        None => text(&workspace.path),
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

/// Removes workspaces of a project, and nothing of another.
pub(super) fn rm(
    at: &Where,
    global: &Global,
    project: &str,
    ids: &[String],
) -> anyhow::Result<ExitCode> {
    ask(at, global, |call| {
        let found: api::Project = call.wait(call.client.get(&project_path(project, &[])))?;
        for id in ids {
            let path = workspace_path(id, &[]);
            let workspace: api::Workspace = call.wait(call.client.get(&path))?;
            if workspace.project != found.id {
                let (id, project) = (id.clone(), project.to_owned());
                return Err(Problem::OtherProject { id, project }.into());
            }
        }
        call.delete_all("workspaces", ids, "Removed")?;
        Ok(ExitCode::SUCCESS)
    })
}
