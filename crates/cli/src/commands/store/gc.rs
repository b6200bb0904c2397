use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use elevo_engine::{GcOptions, GcProgress, GcReport, GcRoot, GcScope, Recent, collect_garbage};
use elevo_objects::SnapshotId;
use serde_json::json;

use crate::errors::StoreProblem;
use crate::local::checkout_record::{CheckoutRecord, CheckoutState};
use crate::local::session::Session;
use crate::local::store_location::StoreLocation;
use crate::local::workspace_places;
use crate::output::format;
use crate::output::progress::{self, Watch};

/// Delete snapshots and objects that nothing needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Kept are head and all tags with their histories, the snapshots of the working
directory and of workspaces, and every snapshot of the last days. All other
snapshots are deleted, with the files that only they contain.

The space is freed when the store compacts its files. For the store of a server,
use `elevo server gc`.

Examples:
  elevo store gc --dry-run      show what would be deleted
  elevo store gc
  elevo store gc --keep 0       delete new snapshots too
  elevo store gc --young        faster: only objects since the last run")]
pub(crate) struct Gc {
    /// Show what would be deleted
    #[arg(short = 'n', long, conflicts_with = "young")]
    dry_run: bool,

    /// Days for which snapshots without a name are kept
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    keep: u32,

    /// Collect only objects that are new since the last run
    #[arg(long)]
    young: bool,
}

pub(crate) fn run(session: &mut Session, args: &Gc) -> anyhow::Result<()> {
    let place = session.place(None)?;
    if place.is_of_server()? {
        let store = place.store;
        return Err(StoreProblem::StoreOfServer { store }.into());
    }
    let repository = session.write(&place)?;
    let roots = roots(&place)?;
    let scope = match args.young {
        true => GcScope::Young,
        false => GcScope::Full,
    };
    let options = GcOptions {
        scope,
        dry_run: args.dry_run,
        keep_recent: recent(args.keep),
    };
    let until = Instant::now() + Duration::from_secs(session.global.wait);
    let mut wait = |_| {
        thread::sleep(Duration::from_millis(10));
        Instant::now() < until
    };
    let progress = GcProgress::default();
    let watch = Watch {
        doing: "looking",
        things: "objects",
        total: None,
        counts: || (progress.marked() + progress.seen(), 0),
    };
    let mut roots = roots.into_iter().map(Ok);
    let report = progress::watch(session.hides_progress(), watch, || {
        collect_garbage(&repository, &mut roots, &options, &mut wait, &progress)
    })?;
    print(session, args.dry_run, &report)
}

fn recent(days: u32) -> Option<Recent> {
    let age = Duration::from_hours(24 * u64::from(days));
    let now = format::now();
    (days > 0).then_some(Recent { age, now })
}

/// The snapshots that the working directory and workspaces need.
fn roots(place: &StoreLocation) -> anyhow::Result<Vec<GcRoot>> {
    let working = place.store.parent().and_then(Path::parent);
    let record = working.and_then(CheckoutRecord::read);
    let record = record.filter(|record| record.store == place.store);
    let mut needed = match record.map(|record| record.held) {
        Some(CheckoutState::Snapshot(id)) => vec![id],
        Some(CheckoutState::Changing { from, to }) => from.into_iter().chain([to]).collect(),
        None => Vec::new(),
    };
    for workspaces in workspace_places::all_places(&place.store)? {
        needed.extend(elevo_workspace::needed_snapshots(&workspaces)?);
    }
    let root = |snapshot: SnapshotId| GcRoot {
        snapshot,
        history: true,
    };
    Ok(needed.into_iter().map(root).collect())
}

fn print(session: &mut Session, dry_run: bool, report: &GcReport) -> anyhow::Result<()> {
    let GcReport {
        snapshots_removed,
        objects_removed,
        ..
    } = *report;
    if session.output.is_json() {
        return Ok(session.output.value(&json!({
            "dry_run": dry_run,
            "full": report.scope == GcScope::Full,
            "snapshots_removed": snapshots_removed,
            "objects_removed": objects_removed,
            "objects_marked": report.objects_marked,
            "objects_seen": report.objects_seen,
        }))?);
    }
    let done = if dry_run { "Would delete" } else { "Deleted" };
    let snapshots = format::count(snapshots_removed, "snapshot", "snapshots");
    let objects = format::count(objects_removed, "object", "objects");
    let line = match (snapshots_removed, objects_removed) {
        (0, 0) => "Nothing to delete".to_owned(),
        _ => format!("{done} {snapshots} and {objects}"),
    };
    Ok(session.output.line(line)?)
}
