use clap::Args;
use elevo_objects::Tree;

use crate::errors::Exit;
use crate::local::revision::HEAD;
use crate::local::session::{Session, View};
use crate::local::wait::wait;
use crate::output::tree_diff::{DiffOptions, print_tree_diff};

/// Show the changes from one snapshot to another.
#[derive(Debug, Args)]
#[command(after_help = "\
With two snapshots, from the first to the second; with one, from its first
parent to it; without any, the changes of the newest commit. A letter stands for
each change: A added, D removed, M content, P permissions, T type, R renamed.
With --json, one object per line.

Both sides are snapshots: to compare with files that are not committed, commit
them first (`commit --detach` does not change the history).

Examples:
  elevo diff                        the changes of the newest commit
  elevo diff v1 head -- src docs    in two directories, since v1
  elevo diff --stat v1 v2           lines and bytes
  elevo diff -p v1 v2 | git apply   as a patch
  elevo diff --exit-code v1 v2 || echo \"they differ\"")]
pub(crate) struct Diff {
    /// One or two snapshots
    #[arg(value_name = "REV", num_args = 0..=2)]
    revisions: Vec<String>,

    #[command(flatten)]
    shown: DiffOptions,
}

pub(crate) fn run(session: &mut Session, args: Diff) -> anyhow::Result<Exit> {
    let view = session.view()?;
    let (before, after) = trees(&view, &args.revisions)?;
    print_tree_diff(session, &view.repository, before, after, args.shown)
}

/// The two trees to compare.
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
