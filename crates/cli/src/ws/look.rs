//! Lists workspaces and shows their paths and changes.

use clap::Args;
use elevo_workspace::{Error, State, WorkspaceId};

use super::{Call, WorkspaceShape, served};
use crate::client::Where;
use crate::errors::Exit;
use crate::format::{self, short};
use crate::global::Global;
use crate::output::{IDENTITY, STRONG};
use crate::state::about::About;
use crate::state::diff::{self, Shown};
use crate::state::keep::describe;

/// List workspaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo ws ls
  elevo ws ls --json | jq -r 'select(.state == \"live\") | .path'
  elevo ws ls --project site               workspaces of a project
  elevo ws ls --parked                     those that outlived a sandbox")]
pub(super) struct Ls {
    /// List the workspaces of a project, from a server
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// List the workspaces that a server keeps after the end of their sandbox
    #[arg(long)]
    parked: bool,

    #[command(flatten)]
    at: Where,
}

impl Ls {
    /// Whether the workspaces are on a server.
    pub(super) fn is_served(&self) -> bool {
        self.project.is_some() || self.parked
    }

    /// Runs the command against a server.
    pub(super) fn ask(self, global: &Global) -> anyhow::Result<Exit> {
        served::ls(&self.at, global, self.project.as_deref(), self.parked)
    }
}

pub(super) fn ls(call: &mut Call) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let records = workspaces.list()?;
    let longest = records.iter().map(|record| record.id.as_str().len()).max();
    let width = longest.unwrap_or_default();
    for record in &records {
        let output = &mut call.session.output;
        if output.is_json() {
            output.value(&WorkspaceShape::new(&workspaces, record)?)?;
            continue;
        }
        let name = output.styled(STRONG, format!("{:width$}", record.id.as_str()));
        let state = match record.state {
            State::Live => record.provider.name(),
            State::Parked => "parked",
        };
        let base = output.styled(IDENTITY, short(record.base));
        let created = format::local_brief(record.created);
        let state = format!("  {state:13} ");
        let line = [&name, state.as_bytes(), &base, b"  ", created.as_bytes()].concat();
        output.line(line)?;
    }
    if records.is_empty() {
        call.session
            .note("there are no workspaces; `elevo ws create` creates one");
    }
    Ok(())
}

/// Print the directory of a workspace.
#[derive(Debug, Args)]
#[command(after_help = "\
After a restart of the machine, this command mounts the workspace again. A
workspace of --provider rootless, which only `elevo ws run` can enter, becomes
an ordinary directory: all its files are written out, as clones or copies.

Examples:
  cd \"$(elevo ws path try-1)\"
  docker run -v \"$(elevo ws path try-1):/workspace\" IMAGE")]
pub(super) struct Path {
    /// The workspace
    id: WorkspaceId,
}

pub(super) fn path(call: &mut Call, args: &Path) -> anyhow::Result<()> {
    let mut workspaces = call.open_to_read()?;
    match workspaces.path(&args.id) {
        Err(Error::Private(_)) if call.held().is_none() => {
            drop(workspaces);
            workspaces = call.open_to_write()?;
            let info = About::default().into_info(&call.session, Vec::new(), None);
            let taken = call.watch("writing files", |progress| {
                workspaces.open_up(&args.id, info, progress)
            })?;
            for loss in &taken.losses {
                call.session.note(&describe(loss));
            }
        }
        path => drop(path?),
    }
    let record = workspaces.get(&args.id)?;
    call.print_path(&workspaces, &record)
}

/// List the changes in a workspace since its last snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
A letter stands for each change: A added, D removed, M content, P permissions,
T type. With --json, the workspace, then one object per change.

Examples:
  elevo ws status try-1
  elevo ws status try-1 --json")]
pub(super) struct Status {
    /// The workspace
    id: WorkspaceId,
}

pub(super) fn status(call: &mut Call, args: &Status) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let record = workspaces.get(&args.id)?;
    if call.session.output.is_json() {
        let shape = WorkspaceShape::new(&workspaces, &record)?;
        call.session.output.value(&shape)?;
    }
    if record.state == State::Parked {
        let text = format!("{} is parked as {}", record.id, short(record.base));
        call.session.note(&text);
        return Ok(());
    }
    let changes = call.watch("looking", |progress| workspaces.changes(&args.id, progress))?;
    if changes.is_empty() {
        let text = format!("nothing was changed since {}", short(record.base));
        call.session.note(&text);
    }
    let (before, after) = (changes.before(), changes.tree);
    let shown = Shown::names();
    diff::show(
        &mut call.session,
        changes.repository(),
        before,
        after,
        shown,
    )?;
    Ok(())
}

/// Show the changes in a workspace since its last snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
Like `elevo state diff`, with the workspace as the second side. --stat and -p
write the contents of changed files to the store, where nothing refers to them.

Examples:
  elevo ws diff try-1
  elevo ws diff -p try-1 | git apply
  elevo ws diff --stat try-1 -- src")]
pub(super) struct Diff {
    /// The workspace
    id: WorkspaceId,

    #[command(flatten)]
    shown: Shown,
}

pub(super) fn diff(call: &mut Call, args: Diff) -> anyhow::Result<Exit> {
    let changes = if args.shown.needs_contents() {
        let workspaces = call.open_to_write()?;
        call.watch("reading", |progress| {
            workspaces.contents(&args.id, progress)
        })?
    } else {
        let workspaces = call.open_to_read()?;
        call.watch("looking", |progress| workspaces.changes(&args.id, progress))?
    };
    let (before, after) = (changes.before(), changes.tree);
    diff::show(
        &mut call.session,
        changes.repository(),
        before,
        after,
        args.shown,
    )
}
