use clap::Args;
use elevo_engine::Repository;
use elevo_objects::{Snapshot, SnapshotId};

use crate::local::ancestors::Ancestors;
use crate::local::revision::{self, HEAD};
use crate::local::session::Session;
use crate::local::wait::wait;
use crate::output::format;
use crate::output::json::SnapshotShape;
use crate::output::snapshot::{self, SnapshotNames};

/// List snapshots, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Lists REV, by default `head`, and all its ancestors; with A..B, the ancestors of
B that A does not have. With --json, one object per line.

Examples:
  elevo log -n 5
  elevo log --oneline v1..head           since v1
  elevo log --all --json | jq -r .snapshot")]
pub(crate) struct Log {
    /// Snapshot to start at, or A..B
    #[arg(value_name = "REV", conflicts_with = "all")]
    revision: Option<String>,

    /// Maximum number of snapshots
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,

    /// List all snapshots in the store, ordered by id
    #[arg(long)]
    all: bool,

    /// Print one line per snapshot
    #[arg(long)]
    oneline: bool,
}

/// Snapshots per request to the store.
const PAGE: usize = 256;

pub(crate) fn run(session: &mut Session, args: Log) -> anyhow::Result<()> {
    let view = session.view()?;
    let names = SnapshotNames::load(&view.repository)?.unwrap_or_else(|| {
        session.note("there are too many tags to show them");
        SnapshotNames::default()
    });
    let mut printer = Printer {
        session,
        names,
        oneline: args.oneline,
        left: args.limit.unwrap_or(u64::MAX),
        is_first: true,
    };
    if args.all {
        return print_all(&view.repository, &mut printer);
    }
    let text = args.revision.as_deref().unwrap_or(HEAD);
    let (from, to) = match revision::range(text) {
        Some((from, to)) => (Some(view.resolve(from)?), to),
        None => (None, text),
    };
    let (id, snapshot) = view.resolve(to)?;
    let mut history = Ancestors::new(&view.repository, id, snapshot);
    if let Some((id, snapshot)) = from {
        history = history.without(id, snapshot)?;
    }
    while printer.left > 0 {
        let Some((id, snapshot)) = history.next()? else {
            break;
        };
        printer.print(id, &snapshot)?;
    }
    if history.missing > 0 {
        let count = format::count(history.missing, "parent is", "parents are");
        session.note(&format!(
            "the history is incomplete: {count} not in this store"
        ));
    }
    Ok(())
}

fn print_all(repository: &Repository, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let (store, tenant) = (repository.store(), repository.tenant());
    let mut after = None;
    while printer.left > 0 {
        let ids = wait(store.list_snapshots(tenant, after, PAGE))?;
        let Some(last) = ids.last() else { break };
        after = Some(*last);
        let snapshots = wait(store.snapshots(tenant, &ids))?;
        for (id, snapshot) in ids.into_iter().zip(snapshots) {
            if let Some(snapshot) = snapshot.filter(|_| printer.left > 0) {
                printer.print(id, &snapshot)?;
            }
        }
    }
    Ok(())
}

struct Printer<'a> {
    session: &'a mut Session,
    names: SnapshotNames,
    oneline: bool,
    left: u64,
    is_first: bool,
}

impl Printer<'_> {
    fn print(&mut self, id: SnapshotId, snapshot: &Snapshot) -> anyhow::Result<()> {
        let output = &mut self.session.output;
        let names = self.names.of(id);
        if output.is_json() {
            output.value(&SnapshotShape::new(id, snapshot, names))?;
        } else if self.oneline {
            snapshot::print_snapshot_line(output, id, snapshot, names)?;
        } else {
            if !self.is_first {
                output.line("")?;
            }
            snapshot::print_snapshot(output, id, snapshot, names)?;
        }
        self.is_first = false;
        self.left -= 1;
        Ok(())
    }
}
