//! Runs a command on a store: in this process, or in the server that holds the
//! store.

use std::path::Path;

use clap::Args;

use crate::errors::Exit;
use crate::global::Global;
use crate::local::caller::Caller;
use crate::local::session::Session;
use crate::local::store_location::find_store;
use crate::output::progress::{self, Watch};
use crate::output::reader_left;
use crate::server_socket;

// The arguments of a top-level command on a store. Not a doc comment, which would
// replace the help of the command.
#[derive(Debug, Args)]
pub(crate) struct WithGlobal<T: Args> {
    #[command(flatten)]
    pub(crate) global: Global,
    // Otherwise its options would stand under the heading of the common ones.
    #[command(flatten, next_help_heading = None::<&'static str>)]
    pub(crate) args: T,
}

/// A command on a store.
pub(crate) trait StoreCommand: Sized {
    fn global(&self) -> &Global;

    /// Its words after `elevo`.
    fn name(&self) -> &'static str;

    /// Whether the process that holds the store must run the command. Most of
    /// these commands write to the store.
    fn needs_holder(&self) -> bool;

    /// Whether it reads standard input.
    fn reads_input(&self) -> bool {
        false
    }

    /// The directory argument, if the store may be found through it.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Whether it prints results as it runs. The others show progress themselves,
    /// or are fast.
    fn is_list(&self) -> bool {
        false
    }

    fn execute(self, session: &mut Session) -> anyhow::Result<Exit>;

    /// Runs the command in this process, or in the server if it needs the holder
    /// of a store that a server holds.
    fn run(self) -> anyhow::Result<Exit> {
        let caller = Caller::local()?;
        if self.needs_holder() {
            let store = find_store(self.global(), &caller.here, self.directory());
            if let Some(code) = server_socket::call(store, &caller, self.reads_input())? {
                return Ok(code);
            }
        }
        self.run_for(caller)
    }

    /// Runs the command for a caller.
    fn run_for(self, caller: Caller) -> anyhow::Result<Exit> {
        let mut session = Session::new(self.global().clone(), self.name(), caller);
        let result = match self.is_list() && session.output.is_to_file() {
            true => watched(&mut session, self),
            false => self.execute(&mut session),
        };
        let result = result.and_then(|code| {
            session.output.finish()?;
            Ok(code)
        });
        match result {
            // `elevo log | head` closes the pipe: not an error.
            Err(error) if reader_left(&error) => Ok(Exit::Done),
            other => other,
        }
    }
}

/// Shows progress on the terminal while the output goes to a file.
fn watched(session: &mut Session, command: impl StoreCommand) -> anyhow::Result<Exit> {
    let written = session.output.written();
    let watch = Watch {
        doing: "writing",
        things: "lines",
        total: None,
        counts: || written.counts(),
    };
    progress::watch(session.hides_progress(), watch, || command.execute(session))
}
