use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use elevo_engine::Progress;
use elevo_store_local::LocalStore;
use serde_json::json;

use crate::local::session::Session;
use crate::output::format::{self, bytes, count, path_text};
use crate::output::progress::{self, Watch};

/// Back up a store while it is in use.
#[derive(Debug, Args)]
#[command(after_help = "\
Each backup is a directory in DIRECTORY, named by its time. It is complete, and
shares unchanged files with the previous backup (as hard links), so it uses
space only for new data. An interrupted backup is never restored. A server that
holds the store keeps running. The store is only a part of a server: `elevo
server backup` backs up all of it.

`elevo store verify --store` verifies a backup, `elevo store restore-backup` restores
it, and `elevo store repair --from` repairs a store from it.

Examples:
  elevo store backup /backups
  elevo store backup /backups --keep 14
  elevo store verify --store \"$(elevo store backup /backups --json | jq -r .backup)\"")]
pub(crate) struct Backup {
    /// Directory of the backups; created if it does not exist
    directory: PathBuf,

    /// Delete the oldest backups and keep N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
}

pub(crate) fn run(session: &mut Session, args: &Backup) -> anyhow::Result<()> {
    let place = session.place(None)?;
    let to = session.path(&args.directory);
    let store: Arc<LocalStore> = match session.held(&place) {
        Some(held) => held.store.clone(),
        None => Arc::new(LocalStore::open(&place.store, &session.options())?),
    };
    let progress = Progress::new();
    let watch = Watch {
        doing: "backing up",
        things: "files",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let name = name();
    let keep = args.keep.map(|keep| keep as usize);
    let made = progress::watch(session.hides_progress(), watch, || {
        store.backup(&to, &name, keep, &progress)
    })?;
    let at = made.path.canonicalize().unwrap_or(made.path);
    let is_of_server = place.is_of_server()?;
    if is_of_server {
        session.note(
            "this is a backup of the server's store only, without its catalog, audit log and \
             workspaces; `elevo server backup` backs up the server",
        );
    }
    if session.output.is_json() {
        let removed = made.removed.iter().map(|path| path.to_string_lossy());
        session.output.value(&json!({
            "backup": at.to_string_lossy(),
            "files": made.files,
            "bytes": made.bytes,
            "new_bytes": made.new_bytes,
            "store_of_server": is_of_server,
            "removed": removed.collect::<Vec<_>>(),
        }))?;
        return Ok(());
    }
    let path = path_text(at.as_os_str().as_encoded_bytes());
    let (all, new) = (bytes(made.bytes), bytes(made.new_bytes));
    session
        .output
        .line(format!("Backed up {all} to {path}, {new} of it new"))?;
    if !made.removed.is_empty() {
        let removed = count(made.removed.len() as u64, "old backup", "old backups");
        session.output.line(format!("Removed {removed}"))?;
    }
    Ok(())
}

/// Returns the time as a name that sorts by age: `2026-03-01T02-00-00Z`.
fn name() -> String {
    let now = format::rfc3339(format::now());
    let seconds = now.split('.').next().unwrap_or_default();
    let seconds = seconds.trim_end_matches('Z').replace(':', "-");
    format!("{seconds}Z")
}
