use std::path::PathBuf;

use clap::Args;
use elevo_engine::Progress;
use elevo_store_local::restore;
use serde_json::json;

use crate::local::session::Session;
use crate::output::format::{bytes, path_text};
use crate::output::progress::{self, Watch};

/// Create a store from a backup.
#[derive(Debug, Args)]
#[command(after_help = "\
BACKUP is a backup, or a directory of backups, of which the newest is used. The
store is created in `.elevo/store` in DIRECTORY, or at the path of --store,
where no store may exist. The checksum of every file is verified.

Examples:
  elevo store restore-backup /backups ~/project
  elevo store restore-backup /backups/2026-03-01T02-00-00Z --store /data/store
  elevo store restore-backup /backups ../rescued --accept-damage && elevo store verify")]
pub(crate) struct RestoreBackup {
    /// The backup
    backup: PathBuf,

    /// Directory for the store; by default the current one
    directory: Option<PathBuf>,

    /// Restore the undamaged part of a damaged backup; `verify` then lists what is
    /// lost
    #[arg(long)]
    accept_damage: bool,
}

pub(crate) fn run(session: &mut Session, args: RestoreBackup) -> anyhow::Result<()> {
    let backup = session.directory(&args.backup)?;
    let path = session.new_store(args.directory.as_deref())?;
    let progress = Progress::new();
    let watch = Watch {
        doing: "restoring",
        things: "files",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let options = session.options();
    let restored = progress::watch(session.hides_progress(), watch, || {
        restore(&backup, &path, args.accept_damage, &options, &progress)
    })?;
    for file in &restored.damaged {
        session.note(&format!(
            "`{file}` is damaged; `elevo store verify` lists what is lost"
        ));
    }
    if session.output.is_json() {
        session.output.value(&json!({
            "store": path.to_string_lossy(),
            "backup": restored.backup.to_string_lossy(),
            "files": restored.files,
            "bytes": restored.bytes,
            "damaged": restored.damaged,
        }))?;
        return Ok(());
    }
    let shown = path_text(path.as_os_str().as_encoded_bytes());
    let from = path_text(restored.backup.as_os_str().as_encoded_bytes());
    let all = bytes(restored.bytes);
    session
        .output
        .line(format!("Restored {all} from {from} to {shown}"))?;
    Ok(())
}
