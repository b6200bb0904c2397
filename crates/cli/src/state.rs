//! The commands of `elevo state`, one per file.

pub(crate) mod about;
pub(crate) mod backup;
pub(crate) mod cat;
pub(crate) mod checkout;
pub(crate) mod commit;
mod describe;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod gc;
mod history;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod keep;
pub(crate) mod log;
pub(crate) mod ls;
mod receive;
pub(crate) mod repair;
pub(crate) mod restore;
mod seen;
pub(crate) mod show;
pub(crate) mod tag;
pub(crate) mod verify;

use std::process::ExitCode;

use elevo_core::TreePath;

use crate::args::{State, StateCommand};
use crate::bar::{self, Watch};
use crate::caller::Caller;
use crate::door;
use crate::errors::Problem;
use crate::output::OutputError;
use crate::session::{Session, find_store};

/// Runs a command in this process, or in the server if it writes to a store that
/// a server holds.
pub(crate) fn run(state: State) -> anyhow::Result<ExitCode> {
    let caller = Caller::local()?;
    if state.writes() {
        let store = find_store(&state.global, &caller.here, state.directory());
        if let Some(code) = door::call(store, &caller, state.reads_input())? {
            return Ok(code);
        }
    }
    run_for(state, caller)
}

/// Runs a command for a caller.
pub(crate) fn run_for(state: State, caller: Caller) -> anyhow::Result<ExitCode> {
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
        Err(error) if reader_left(&error) => Ok(ExitCode::SUCCESS),
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
fn watched(session: &mut Session, command: StateCommand) -> anyhow::Result<ExitCode> {
    let written = session.output.written();
    let watch = Watch {
        doing: "writing",
        things: "lines",
        total: None,
        counts: || written.counts(),
    };
    bar::watch(session.hides_progress(), watch, || {
        dispatch(session, command)
    })
}

fn dispatch(session: &mut Session, command: StateCommand) -> anyhow::Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
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

pub(crate) fn reader_left(error: &anyhow::Error) -> bool {
    let output: Option<&OutputError> = error.downcast_ref();
    output.is_some_and(OutputError::reader_left)
}

/// Parses a path within a snapshot. Ignores `./` in front and slashes at the
/// end; `.` is the root.
fn tree_path(text: &std::ffi::OsStr) -> Result<TreePath, Problem> {
    let mut path = text.as_encoded_bytes();
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    while let Some(rest) = path.strip_suffix(b"/").filter(|rest| !rest.is_empty()) {
        path = rest;
    }
    if path == b"." {
        path = b"";
    }
    TreePath::new(path).map_err(|source| Problem::NotATreePath {
        path: text.as_encoded_bytes().into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_as_people_type_them() {
        let typed = |text: &str| tree_path(text.as_ref()).map(|path| path.to_string());
        for (text, expected) in [("", ""), (".", ""), ("./", ""), ("./a/b//", "a/b")] {
            assert_eq!(typed(text).unwrap(), expected, "{text}");
        }
        for bad in ["/", "/etc", "../a", "a//b"] {
            assert!(typed(bad).is_err(), "{bad}");
        }
    }
}
