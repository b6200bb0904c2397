//! Prints the differences between two trees.

use std::ffi::OsString;

use clap::Args;
use elevo_core::TreePath;
use elevo_engine::{Change, Repository, renames};
use elevo_objects::Tree;

use crate::errors::{Exit, SnapshotProblem};
use crate::local::session::Session;
use crate::local::tree_path::tree_path;
use crate::local::wait::wait;
use crate::output::changes::{ChangeForm, ChangeItem, ChangePrinter};

/// The paths and the form of a diff.
#[derive(Debug, Args)]
pub(crate) struct DiffOptions {
    /// Only changes at or below these paths, from the root of the snapshot
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<OsString>,

    /// Show lines added and removed, or sizes of binary files, and the totals
    #[arg(long)]
    stat: bool,

    /// Print a patch for `git apply` and `patch -p1`
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

    /// Show files that were moved without change as renames
    #[arg(long)]
    renames: bool,

    /// Exit with code 7 if there are differences, and 0 if not
    #[arg(long)]
    exit_code: bool,
}

impl DiffOptions {
    /// Returns `stat`, `patch` and `exit_code`; `None` if another option is given,
    /// which a server does not have.
    pub(crate) fn on_server(&self) -> Option<(bool, bool, bool)> {
        let is_plain = self.paths.is_empty() && !self.renames && self.context == 3;
        is_plain.then_some((self.stat, self.patch, self.exit_code))
    }
}

/// Maximum number of changes for rename detection, which holds all of them in
/// memory.
const MAX_FOR_RENAMES: usize = 100_000;

/// Prints the differences between two trees of a repository.
pub(crate) fn print_tree_diff(
    session: &mut Session,
    repository: &Repository,
    before: Tree,
    after: Tree,
    shown: DiffOptions,
) -> anyhow::Result<Exit> {
    let paths = shown.paths.iter().map(|path| tree_path(path));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let form = match (shown.stat, shown.patch) {
        (true, _) => ChangeForm::Stat,
        (_, true) => ChangeForm::Patch {
            context: shown.context,
        },
        _ => ChangeForm::Names,
    };
    let mut changes = Changes::new(repository, before, after, paths);
    let mut printer = ChangePrinter::new(&mut session.output, repository, form);
    if shown.renames {
        for item in with_renames(changes.collect()?) {
            printer.print(item)?;
        }
    } else {
        while let Some(change) = changes.next()? {
            printer.print(ChangeItem::Change(change))?;
        }
    }
    let differ = printer.finish()?;
    Ok(match shown.exit_code && differ {
        true => Exit::Differences,
        false => Exit::Done,
    })
}

impl DiffOptions {
    /// Only the letter and the path of each change.
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

    /// Whether the content of files is needed, not only their names.
    pub(crate) const fn needs_contents(&self) -> bool {
        self.stat || self.patch
    }
}

/// Changes and renames, sorted by path.
fn with_renames(changes: Vec<Change>) -> Vec<ChangeItem> {
    let found = renames(changes);
    let renames = found.renames.into_iter().map(ChangeItem::Rename);
    let changes = found.changes.into_iter().map(ChangeItem::Change);
    let mut items: Vec<_> = renames.chain(changes).collect();
    items.sort_by(|a, b| a.path().cmp(b.path()));
    items
}

/// The changes at the requested paths.
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
                return Err(SnapshotProblem::TooManyChanges { limit }.into());
            }
            changes.push(change);
        }
        Ok(changes)
    }
}
