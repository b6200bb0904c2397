use std::path::PathBuf;

use clap::Args;
use elevo_api::{BackupMade, MakeBackup};
use reqwest::Method;

use crate::client::Call;
use crate::client::operator::OperatorOptions;
use crate::errors::{Exit, FileProblem};
use crate::output::format::{bytes, count};

/// Back up the whole server while it runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Each backup is a directory in DIRECTORY, named by its time. It has the catalog,
the store, the audit log and the files of all workspaces, merged or not, and
shares unchanged files of the store with the backup before (as hard links).
Everything that the server acknowledged before the backup began is in it. An
interrupted backup is named `unfinished` and is never restored.

If the catalog is in a database (CATALOG_URL), the backup does not contain it, and
names the position in the log of the database to which it belongs.

A backup does not contain settings, TLS certificates and the owner's key.

Examples:
  elevo server backup /backups
  elevo server backup /backups --keep 14
  elevo server backup /backups --json | jq -r .backup")]
pub(super) struct Backup {
    /// Directory of the backups; created if it does not exist
    directory: PathBuf,

    /// Delete the oldest backups and keep N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
}

pub(super) fn run(at: &OperatorOptions, args: &Backup) -> anyhow::Result<Exit> {
    let directory = std::path::absolute(&args.directory).map_err(|source| FileProblem::Io {
        action: "find",
        path: args.directory.clone(),
        source,
    })?;
    let directory = match directory.to_str() {
        Some(directory) => directory.to_owned(),
        None => return Err(FileProblem::PathNotText(directory).into()),
    };
    let keep = args.keep;
    at.ask(|call| {
        let wish = MakeBackup { directory, keep };
        let request = call.client.request(Method::POST, &["backup"]).json(&wish);
        let making = call.client.json_at_last(request);
        let made: BackupMade = call.watch("backing up", making)?;
        print(call, &made)
    })
}

fn print(call: &mut Call, made: &BackupMade) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(made)?);
    }
    let (all, new) = (bytes(made.bytes), bytes(made.new_bytes));
    let line = format!("Backed up {all} to {}, {new} of it new", made.backup);
    call.output.line(line)?;
    if let Some(position) = &made.database {
        let line = format!("It belongs to the database of the catalog at the position {position}");
        call.output.line(line)?;
    }
    if !made.removed.is_empty() {
        let removed = count(made.removed.len() as u64, "old backup", "old backups");
        call.output.line(format!("Removed {removed}"))?;
    }
    for workspace in &made.unread {
        call.note(&format!(
            "the workspace {} could not be read, and the backup has only its last snapshot: {}",
            workspace.id, workspace.cause
        ));
    }
    Ok(())
}
