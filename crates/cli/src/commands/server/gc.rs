use clap::Args;
use elevo_api::{Gc as Wish, GcResult};
use reqwest::Method;

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::output::format::{bytes, count};

/// Collect the garbage of the server now.
#[derive(Debug, Args)]
#[command(after_help = "\
Deletes expired sandboxes, versions that no project keeps, and objects that
nothing needs. The server does the same by itself on a schedule (GC_INTERVAL).

Examples:
  elevo server gc --dry-run     show what would be deleted from the store
  elevo server gc
  elevo server gc --young       faster: only objects since the last run")]
pub(super) struct Gc {
    /// Show what would be deleted from the store
    #[arg(short = 'n', long, conflicts_with = "young")]
    dry_run: bool,

    /// Collect only objects that are new since the last run
    #[arg(long)]
    young: bool,
}

pub(super) fn run(at: &OperatorOptions, args: &Gc) -> anyhow::Result<Exit> {
    at.ask(|call| {
        let wish = Wish {
            dry_run: args.dry_run,
            full: Some(!args.young),
        };
        let request = call.client.request(Method::POST, &["gc"]).json(&wish);
        let collecting = call.client.json_at_last(request);
        let done: GcResult = call.watch("collecting garbage", collecting)?;
        if call.output.is_json() {
            return Ok(call.output.value(&done)?);
        }
        let verb = if args.dry_run {
            "Would delete"
        } else {
            "Deleted"
        };
        let snapshots = count(done.cleaned_snapshots, "snapshot", "snapshots");
        let objects = count(done.cleaned_objects, "object", "objects");
        call.output
            .line(format!("{verb} {snapshots} and {objects}"))?;
        if !args.dry_run {
            let sandboxes = count(done.cleaned_sandboxes, "sandbox", "sandboxes");
            let workspaces = count(done.cleaned_workspaces, "workspace", "workspaces");
            let freed = bytes(done.freed_space);
            let line = format!("Deleted {sandboxes} and {workspaces}; freed {freed}");
            call.output.line(line)?;
        }
        Ok(())
    })
}
