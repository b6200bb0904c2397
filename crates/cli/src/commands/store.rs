//! The commands of `elevo store`, one per file.

mod backup;
mod copy;
mod gc;
mod opened;
mod repair;
mod restore_backup;
mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::errors::Exit;
use crate::global::Global;
use crate::local::session::Session;
use crate::store_command::StoreCommand;

/// Maintain a store: collect garbage, verify, repair, back up and copy.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A store has the snapshots of `elevo commit` and `elevo import`, in the directory
`.elevo/store`. `elevo server` has the commands for the data of a server.

Examples:
  elevo store gc --dry-run
  elevo store verify
  elevo store backup /backups
  elevo store restore-backup /backups ~/project
  elevo store copy /var/lib/elevo/store postgres://elevo@db1,db2/elevo"
)]
pub(crate) struct Store {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Verb,
}

/// The commands of `elevo store`, each defined in its own file.
#[derive(Debug, Subcommand)]
enum Verb {
    Gc(gc::Gc),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Backup(backup::Backup),
    RestoreBackup(restore_backup::RestoreBackup),
    Copy(copy::Copy),
}

impl Store {
    /// Has the directory found that STORE names, like that of --store.
    pub(crate) fn with_place(mut self) -> Self {
        if let Some(place) = self.command.place()
            && opened::url(place).is_none()
        {
            self.global.store = Some(place.clone());
        }
        self
    }
}

impl Verb {
    /// The store that an argument names.
    fn place(&self) -> Option<&PathBuf> {
        match self {
            Self::Verify(args) => args.place.as_ref(),
            Self::Repair(args) => args.place.as_ref(),
            _ => None,
        }
    }
}

impl StoreCommand for Store {
    fn global(&self) -> &Global {
        &self.global
    }

    fn name(&self) -> &'static str {
        match self.command {
            Verb::Gc(_) => "store gc",
            Verb::Verify(_) => "store verify",
            Verb::Repair(_) => "store repair",
            Verb::Backup(_) => "store backup",
            Verb::RestoreBackup(_) => "store restore-backup",
            Verb::Copy(_) => "store copy",
        }
    }

    fn needs_holder(&self) -> bool {
        // These need a current view of the store, which only its holder has. A store
        // in a database has no holder.
        let place = self.command.place();
        let is_in_database = place.is_some_and(|place| opened::url(place).is_some());
        !is_in_database
            && matches!(
                self.command,
                Verb::Verify(_) | Verb::Repair(_) | Verb::Backup(_)
            )
    }

    fn execute(self, session: &mut Session) -> anyhow::Result<Exit> {
        let done = |()| Exit::Done;
        match self.command {
            Verb::Gc(args) => gc::run(session, &args).map(done),
            Verb::Verify(args) => verify::run(session, &args),
            Verb::Repair(args) => repair::run(session, &args),
            Verb::Backup(args) => backup::run(session, &args).map(done),
            Verb::RestoreBackup(args) => restore_backup::run(session, args).map(done),
            Verb::Copy(args) => copy::run(session, &args),
        }
    }
}
