//! The `elevo` command: arguments, progress, output and exit codes over the
//! libraries of this workspace. `docs/cli.md` is its manual.
//!
//! May depend on every library crate. Must not contain logic that a user of the
//! libraries would need. Only this crate reads the clock, the environment, the
//! terminal and the current directory; the libraries get them as arguments.

#![allow(
    clippy::disallowed_methods,
    reason = "the clock, the environment and the current directory enter here"
)]

mod args;
mod audit;
mod bar;
mod caller;
mod client;
mod confirm;
mod cp;
mod data;
mod doctor;
mod editor;
mod errors;
mod event;
mod exec;
mod format;
mod global;
mod input;
mod key;
mod merging;
mod output;
mod paint;
mod patch;
mod project;
mod record;
mod review;
mod revision;
mod sandbox;
mod server;
mod server_socket;
mod service;
mod session;
mod shapes;
mod shell;
mod state;
mod template;
mod up;
mod webhook;
mod ws;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use caller::Caller;
use errors::{Exit, Report};
use server_socket::CommandFailure;

/// mimalloc, because small allocations take half the time that a small commit
/// spends outside RocksDB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(exit().code())
}

fn exit() -> Exit {
    #[cfg(target_os = "linux")]
    if let Some(exit) = ws::entered() {
        return exit;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let (json, is_other) = (cli.command.is_json(), cli.command.ends_as_another());
    match run(cli.command) {
        Ok(exit) => exit,
        Err(error) => {
            let report = Report::new(&error);
            report.print(json);
            match is_other {
                true => Exit::Itself,
                false => report.exit,
            }
        }
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::State(state) => state::run(state),
        Command::Ws(ws) => ws::run(ws),
        Command::Up(up) => up::run(&up, run_for),
        Command::Sandbox(sandbox) => sandbox::run(sandbox),
        Command::Exec(exec) => exec::exec(exec),
        Command::Shell(shell) => shell::run(shell),
        Command::Ps(ps) => exec::ps(&ps),
        Command::Attach(attach) => exec::attach(&attach),
        Command::Kill(kill) => exec::kill(&kill),
        Command::Cp(cp) => cp::run(&cp),
        Command::Project(project) => project::run(project),
        Command::Review(review) => review::run(review),
        Command::Template(template) => template::run(template),
        Command::Key(key) => key::run(key),
        Command::Agent(agent) => key::run_agent(agent),
        Command::Events(events) => event::run(&events),
        Command::Webhook(webhook) => webhook::run(webhook),
        Command::Audit(audit) => audit::run(&audit),
        Command::Server(server) => server::run(server),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Completions { shell } => completions(shell),
    }
}

/// Runs a command on behalf of another process, in the server that holds its
/// store.
fn run_for(args: Vec<OsString>, caller: Caller) -> Result<Exit, CommandFailure> {
    let words = std::iter::once("elevo".into()).chain(args);
    let cli = Cli::try_parse_from(words).map_err(CommandFailure::Usage)?;
    let json = cli.command.is_json();
    let ran = match cli.command {
        Command::State(state) => state::run_for(state, caller),
        Command::Ws(ws) => ws::run_for(ws, caller),
        _ => return Err(CommandFailure::NotServed),
    };
    ran.map_err(|error| CommandFailure::Failed { error, json })
}

/// Prints clap's error, or the help or version that the user asked for.
fn refuse(error: &clap::Error) -> Exit {
    let json = std::env::args_os().any(|argument| argument == "--json");
    if json && error.use_stderr() {
        let report = Report::usage(error);
        report.print(true);
    } else {
        // If standard error is closed, there is nowhere to report it.
        let _ = error.print();
    }
    match error.use_stderr() {
        true => Exit::Usage,
        false => Exit::Done,
    }
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "elevo", &mut script);
    let mut output = output::Output::new(false);
    output.bytes(&script)?;
    output.finish()?;
    Ok(Exit::Done)
}
