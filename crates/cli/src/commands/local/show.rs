use clap::Args;
use elevo_objects::Tree;

use crate::errors::Exit;
use crate::local::revision::HEAD;
use crate::local::session::Session;
use crate::local::wait::wait;
use crate::output::json::SnapshotShape;
use crate::output::snapshot::{self, SnapshotNames};
use crate::output::tree_diff::{DiffOptions, print_tree_diff};

/// Describe one snapshot and show its changes.
#[derive(Debug, Args)]
#[command(after_help = "\
The changes are those since the first parent, as `elevo diff` shows them. `elevo
ls REV` lists the files. With --json, the snapshot, then one object per change.

REV names a snapshot: `head` or `HEAD` (the newest commit), `@` (the snapshot of
the last commit or checkout in this directory), a tag, an id or at least 6 of its
first digits, and any of these followed by `~N` (N steps back, by default 1).

Examples:
  elevo show
  elevo show v1~2 -p
  elevo show head --json")]
pub(crate) struct Show {
    /// The snapshot
    #[arg(value_name = "REV", default_value = HEAD)]
    revision: String,

    #[command(flatten)]
    shown: DiffOptions,
}

pub(crate) fn run(session: &mut Session, args: Show) -> anyhow::Result<Exit> {
    let view = session.view()?;
    let (id, snapshot) = view.resolve(&args.revision)?;
    let names = SnapshotNames::load(&view.repository)?.unwrap_or_default();
    let names = names.of(id);
    let output = &mut session.output;
    if output.is_json() {
        output.value(&SnapshotShape::new(id, &snapshot, names))?;
    } else {
        snapshot::print_snapshot(output, id, &snapshot, names)?;
        output.line("")?;
    }
    let before = match snapshot.parents.first() {
        Some(parent) => wait(view.repository.snapshot(*parent))?.tree,
        None => Tree::EMPTY,
    };
    print_tree_diff(session, &view.repository, before, snapshot.tree, args.shown)
}
