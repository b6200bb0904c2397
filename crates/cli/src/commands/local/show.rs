use clap::Args;

use crate::local::revision::HEAD;
use crate::local::session::Session;
use crate::output::json::SnapshotShape;
use crate::output::snapshot::{self, SnapshotNames};

/// Describe one snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
`elevo diff REV` shows its changes, and `elevo ls REV` its files.

REV names a snapshot: `head` or `HEAD` (the newest commit), `@` (the snapshot of
the last commit or checkout in this directory), a tag, an id or at least 6 of its
first digits, and any of these followed by `~N` (N steps back, by default 1).

Examples:
  elevo show
  elevo show v1~2
  elevo show head --json")]
pub(crate) struct Show {
    /// The snapshot
    #[arg(value_name = "REV", default_value = HEAD)]
    revision: String,
}

pub(crate) fn run(session: &mut Session, args: &Show) -> anyhow::Result<()> {
    let view = session.view()?;
    let (id, snapshot) = view.resolve(&args.revision)?;
    let names = SnapshotNames::load(&view.repository)?.unwrap_or_default();
    let names = names.of(id);
    let output = &mut session.output;
    if output.is_json() {
        output.value(&SnapshotShape::new(id, &snapshot, names))?;
        return Ok(());
    }
    snapshot::print_snapshot(output, id, &snapshot, names)?;
    output.line("")?;
    let hash = |hash: Option<elevo_objects::Hash>| match hash {
        Some(hash) => hash.to_string(),
        None => "none".into(),
    };
    output.line(format!("tree   {}", hash(snapshot.tree.root)))?;
    output.line(format!("times  {}", hash(snapshot.times)))?;
    for parent in &snapshot.parents {
        output.line(format!("parent {parent}"))?;
    }
    Ok(())
}
