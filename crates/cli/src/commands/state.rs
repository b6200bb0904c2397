//! The commands of `elevo state`, one per file.

mod backup;
mod cat;
mod checkout;
mod commit;
mod diff;
mod export;
mod gc;
mod import;
mod init;
mod log;
mod ls;
mod repair;
mod restore;
mod show;
mod tag;
mod verify;

use clap::{Args, Subcommand};

use crate::errors::Exit;
use crate::global::Global;
use crate::local::caller::Caller;
use crate::local::session::Session;
use crate::local::store_location::find_store;
use crate::output::progress::{self, Watch};
use crate::output::reader_left;
use crate::server_socket;

/// Snapshots of directories, in a store on this machine.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
`init` creates a store in the directory `.elevo/store`. The other commands look
for it in the current directory and its parents. None of them needs root.

REV names a snapshot: its id or the first digits of it (at least 6), a tag,
`head` (the newest commit), `@` (the snapshot this directory was last checked
out from or committed as), and any of these followed by `~N` (N steps back, by
default 1).

Examples:
  elevo state init && elevo state commit -m \"first\"
  elevo state tag v1
  elevo state diff --stat v1 head
  elevo state checkout v1 ../copy
  elevo state log --json | jq -r .snapshot"
)]
pub(crate) struct State {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    command: StateCommand,
}

impl State {
    /// Whether the process that holds the store must run the command. Most of
    /// these commands write to the store.
    fn writes(&self) -> bool {
        match &self.command {
            // These need a current view of the store, which only its holder has.
            StateCommand::Verify(_) | StateCommand::Repair(_) | StateCommand::Backup(_) => true,
            StateCommand::Import(_) | StateCommand::Commit(_) => true,
            StateCommand::Tag(tag) => tag.writes(),
            _ => false,
        }
    }

    /// Whether it reads standard input.
    fn reads_input(&self) -> bool {
        matches!(&self.command, StateCommand::Import(import) if import.tar.is_input())
    }

    /// The directory argument, if the store may be found through it.
    fn directory(&self) -> Option<&std::path::Path> {
        match &self.command {
            StateCommand::Commit(commit) => commit.directory(),
            _ => None,
        }
    }
}

/// The commands of `elevo state`, each defined in its own file.
#[derive(Debug, Subcommand)]
enum StateCommand {
    Init(init::Init),
    Import(import::Import),
    Export(export::Export),
    Commit(commit::Commit),
    Log(log::Log),
    Show(show::Show),
    Diff(diff::Diff),
    Checkout(checkout::Checkout),
    Cat(cat::Cat),
    Ls(ls::Ls),
    Tag(tag::Tag),
    Gc(gc::Gc),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Backup(backup::Backup),
    Restore(restore::Restore),
}

/// Runs a command in this process, or in the server if it writes to a store that
/// a server holds.
pub(crate) fn run(state: State) -> anyhow::Result<Exit> {
    let caller = Caller::local()?;
    if state.writes() {
        let store = find_store(&state.global, &caller.here, state.directory());
        if let Some(code) = server_socket::call(store, &caller, state.reads_input())? {
            return Ok(code);
        }
    }
    run_for(state, caller)
}

/// Runs a command for a caller.
pub(crate) fn run_for(state: State, caller: Caller) -> anyhow::Result<Exit> {
    let mut session = Session::new(state.global, name(&state.command), caller);
    let result = match is_list(&state.command) && session.output.is_to_file() {
        true => watched(&mut session, state.command),
        false => dispatch(&mut session, state.command),
    };
    let result = result.and_then(|code| {
        session.output.finish()?;
        Ok(code)
    });
    match result {
        // `elevo state log | head` closes the pipe: not an error.
        Err(error) if reader_left(&error) => Ok(Exit::Done),
        other => other,
    }
}

/// Whether a command prints results as it runs. The others show progress
/// themselves, or are fast.
const fn is_list(command: &StateCommand) -> bool {
    use StateCommand::{Cat, Diff, Log, Ls};
    matches!(command, Log(_) | Diff(_) | Cat(_) | Ls(_))
}

/// Shows progress on the terminal while the output goes to a file.
fn watched(session: &mut Session, command: StateCommand) -> anyhow::Result<Exit> {
    let written = session.output.written();
    let watch = Watch {
        doing: "writing",
        things: "lines",
        total: None,
        counts: || written.counts(),
    };
    progress::watch(session.hides_progress(), watch, || {
        dispatch(session, command)
    })
}

fn dispatch(session: &mut Session, command: StateCommand) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    match command {
        StateCommand::Init(args) => init::run(session, args).map(done),
        StateCommand::Import(args) => import::run(session, args).map(done),
        StateCommand::Export(args) => export::run(session, &args).map(done),
        StateCommand::Commit(args) => commit::run(session, args).map(done),
        StateCommand::Log(args) => log::run(session, args).map(done),
        StateCommand::Show(args) => show::run(session, &args).map(done),
        StateCommand::Diff(args) => diff::run(session, args),
        StateCommand::Checkout(args) => checkout::run(session, args).map(done),
        StateCommand::Cat(args) => cat::run(session, &args).map(done),
        StateCommand::Ls(args) => ls::run(session, &args).map(done),
        StateCommand::Tag(args) => tag::run(session, args).map(done),
        StateCommand::Verify(args) => verify::run(session, &args),
        StateCommand::Repair(args) => repair::run(session, &args),
        StateCommand::Backup(args) => backup::run(session, &args).map(done),
        StateCommand::Restore(args) => restore::run(session, args).map(done),
        StateCommand::Gc(args) => gc::run(session, &args).map(done),
    }
}

const fn name(command: &StateCommand) -> &'static str {
    match command {
        StateCommand::Init(_) => "state init",
        StateCommand::Import(_) => "state import",
        StateCommand::Export(_) => "state export",
        StateCommand::Commit(_) => "state commit",
        StateCommand::Log(_) => "state log",
        StateCommand::Show(_) => "state show",
        StateCommand::Diff(_) => "state diff",
        StateCommand::Checkout(_) => "state checkout",
        StateCommand::Cat(_) => "state cat",
        StateCommand::Ls(_) => "state ls",
        StateCommand::Tag(_) => "state tag",
        StateCommand::Verify(_) => "state verify",
        StateCommand::Repair(_) => "state repair",
        StateCommand::Backup(_) => "state backup",
        StateCommand::Restore(_) => "state restore",
        StateCommand::Gc(_) => "state gc",
    }
}
