mod print;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use elevo_core::TreePath;
use elevo_engine::{Change, Repository, renames};
use elevo_objects::Tree;

use super::tree_path;
use crate::errors::{Exit, Problem};
use crate::revision::HEAD;
use crate::session::{Session, View, wait};
use print::{Form, Item, Printer};

/// Tell what changed from one snapshot to another.
#[derive(Debug, Args)]
#[command(after_help = "\
With two snapshots, from the first to the second; with one, from its first
parent to it; with none, what the newest commit changed. A letter stands for
each change: A added, D removed, M content, P permissions, T type, R renamed.
With --json, one object per line.

Both sides are snapshots: to compare with files that are not committed, commit
them first (`commit --detach` leaves no trace in the history).

Examples:
  elevo state diff                        what the newest commit changed
  elevo state diff v1 head -- src docs    in two directories, since v1
  elevo state diff --stat v1 v2           lines and bytes
  elevo state diff -p v1 v2 | git apply   as a patch
  elevo state diff --exit-code v1 v2 || echo \"they differ\"")]
pub(crate) struct Diff {
    /// One or two snapshots
    #[arg(value_name = "REV", num_args = 0..=2)]
    revisions: Vec<String>,

    #[command(flatten)]
    shown: Shown,
}

/// What is told of a diff, and how.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// Only what is at or below these paths, from the root of the snapshot
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<OsString>,

    /// Lines added and removed, text or binary, bytes; then the totals
    #[arg(long)]
    stat: bool,

    /// A patch that `git apply` and `patch -p1` take
    #[arg(short, long, conflicts_with = "stat")]
    patch: bool,

    /// Unchanged lines around each change of a patch
    #[arg(
        short = 'U',
        long,
        value_name = "LINES",
        default_value_t = 3,
        requires = "patch"
    )]
    context: u32,

    /// Tell what was moved without change from what was removed and added
    #[arg(long)]
    renames: bool,

    /// End with exit code 7 if there are differences, 0 if not
    #[arg(long)]
    exit_code: bool,
}

/// Renames need all changes in memory at once, so there is a limit.
const MAX_FOR_RENAMES: usize = 100_000;

pub(crate) fn run(session: &mut Session, args: Diff) -> anyhow::Result<ExitCode> {
    let view = session.view()?;
    let (before, after) = trees(&view, &args.revisions)?;
    show(session, &view.repository, before, after, args.shown)
}

/// Prints what differs between two trees of a repository.
pub(crate) fn show(
    session: &mut Session,
    repository: &Repository,
    before: Tree,
    after: Tree,
    shown: Shown,
) -> anyhow::Result<ExitCode> {
    let paths = shown.paths.iter().map(|path| tree_path(path));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let form = match (shown.stat, shown.patch) {
        (true, _) => Form::Stat,
        (_, true) => Form::Patch {
            context: shown.context,
        },
        _ => Form::Names,
    };
    let mut changes = Changes::new(repository, before, after, paths);
    let mut printer = Printer::new(&mut session.output, repository, form);
    if shown.renames {
        for item in with_renames(changes.collect()?) {
            printer.print(item)?;
        }
    } else {
        while let Some(change) = changes.next()? {
            printer.print(Item::Change(change))?;
        }
    }
    let differ = printer.finish()?;
    Ok(match shown.exit_code && differ {
        true => Exit::Differences.into(),
        false => ExitCode::SUCCESS,
    })
}

impl Shown {
    /// Only what changed, in words.
    pub(crate) const fn names() -> Self {
        Self {
            paths: Vec::new(),
            stat: false,
            patch: false,
            context: 0,
            renames: false,
            exit_code: false,
        }
    }

    /// Whether files themselves are looked at, not only their names.
    pub(crate) const fn needs_contents(&self) -> bool {
        self.stat || self.patch
    }
}

/// The two sides.
fn trees(view: &View, revisions: &[String]) -> anyhow::Result<(Tree, Tree)> {
    let (_, first) = view.resolve(revisions.first().map_or(HEAD, String::as_str))?;
    if let Some(second) = revisions.get(1) {
        let (_, second) = view.resolve(second)?;
        return Ok((first.tree, second.tree));
    }
    let before = match first.parents.first() {
        Some(parent) => wait(view.repository.snapshot(*parent))?.tree,
        None => Tree::EMPTY,
    };
    Ok((before, first.tree))
}

/// Changes and renames together, in the order of a walk.
fn with_renames(changes: Vec<Change>) -> Vec<Item> {
    let found = renames(changes);
    let renames = found.renames.into_iter().map(Item::Rename);
    let changes = found.changes.into_iter().map(Item::Change);
    let mut items: Vec<_> = renames.chain(changes).collect();
    items.sort_by(|a, b| a.path().cmp(b.path()));
    items
}

/// The changes that were asked for.
struct Changes {
    diff: elevo_engine::Diff,
    paths: Vec<TreePath>,
}

impl Changes {
    fn new(repository: &Repository, before: Tree, after: Tree, paths: Vec<TreePath>) -> Self {
        let diff = elevo_engine::Diff::new(repository, before, after);
        Self { diff, paths }
    }

    fn next(&mut self) -> anyhow::Result<Option<Change>> {
        let (diff, paths) = (&mut self.diff, &self.paths);
        let wanted = |change: &Change| {
            paths.is_empty() || paths.iter().any(|path| change.path.starts_with(path))
        };
        Ok(wait(async {
            loop {
                match diff.next().await? {
                    Some(change) if !wanted(&change) => {}
                    other => return Ok::<_, elevo_engine::Error>(other),
                }
            }
        })?)
    }

    fn collect(&mut self) -> anyhow::Result<Vec<Change>> {
        let mut changes = Vec::new();
        while let Some(change) = self.next()? {
            if changes.len() == MAX_FOR_RENAMES {
                let limit = MAX_FOR_RENAMES;
                return Err(Problem::TooManyChanges { limit }.into());
            }
            changes.push(change);
        }
        Ok(changes)
    }
}
