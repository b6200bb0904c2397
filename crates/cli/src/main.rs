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

mod agent_inside;
mod args;
mod client;
mod commands;
mod completion;
mod errors;
mod global;
mod input;
mod local;
mod options;
mod output;
mod server_socket;
mod store_command;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use args::{Cli, Command};
use commands::{
    agent, attach, audit, catalog, completions, context, cp, demo, doctor, down, events, exec,
    files, help, key, kill, login, logout, man, port, project, ps, review, sandbox, server, shell,
    snapshot, template, up, version, webhook, whoami, ws,
};
use errors::{Exit, Report};
use local::caller::Caller;
use output::reader_left;
use server_socket::CommandFailure;
use store_command::StoreCommand;

/// mimalloc, because small allocations account for half of the time that a
/// small commit spends outside RocksDB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if is_called("workspace-server") {
        return elevo_server::run_command(agent_inside::agent_inside());
    }
    ExitCode::from(exit().code())
}

/// Whether the program was called by another of its names.
fn is_called(name: &str) -> bool {
    let called = std::env::args_os().next();
    called.is_some_and(|called| std::path::Path::new(&called).file_name() == Some(name.as_ref()))
}

fn exit() -> Exit {
    #[cfg(target_os = "linux")]
    if let Some(exit) = ws::entered() {
        return exit;
    }
    match complete() {
        Ok(false) => {}
        Ok(true) => return Exit::Done,
        Err(error) => return refuse(&error),
    }
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let (json, is_other) = (cli.command.is_json(), cli.command.ends_as_another());
    match run(cli.command) {
        Ok(exit) => exit,
        // `elevo completions bash | head` closes the pipe: not an error.
        Err(error) if reader_left(&error) => Exit::Done,
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

/// Parses the arguments. The usage in an error would name each option that a
/// variable fills, so the error comes from a parser without variables.
fn parse() -> Result<Cli, clap::Error> {
    Cli::try_parse().map_err(|error| {
        let plain = without_variables(Cli::command()).try_get_matches();
        plain.err().unwrap_or(error)
    })
}

fn without_variables(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| arg.env(None::<&'static str>))
        .mut_subcommands(without_variables)
}

/// Prints completions if the script of a shell asks for them. Returns whether it
/// did.
fn complete() -> Result<bool, clap::Error> {
    let tree = || completion::with_values(Cli::command());
    let engine = CompleteEnv::with_factory(tree).var(completion::VARIABLE);
    let here = std::env::current_dir().ok();
    engine.try_complete(std::env::args_os(), here.as_deref())
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Local(local) => local.run(),
        Command::Store(store) => store.with_place().run(),
        Command::Ws(ws) => ws::run(ws),
        Command::Up(up) => up::run(&up, run_for),
        Command::Down(down) => down::run(&down),
        Command::Login(login) => login::run(&login),
        Command::Logout(logout) => logout::run(&logout),
        Command::Context(context) => context::run(&context),
        Command::Whoami(whoami) => whoami::run(&whoami),
        Command::Sandbox(sandbox) => sandbox::run(sandbox),
        Command::Exec(exec) => exec::run(exec),
        Command::Shell(shell) => shell::run(shell),
        Command::Ps(ps) => ps::run(&ps),
        Command::Attach(attach) => attach::run(&attach),
        Command::Kill(kill) => kill::run(&kill),
        Command::Cp(cp) => cp::run(&cp),
        Command::Files(files) => files::run(files),
        Command::Port(port) => port::run(port),
        Command::Project(project) => project::run(project),
        Command::Review(review) => review::run(review),
        Command::Snapshot(snapshot) => snapshot::run(snapshot),
        Command::Template(template) => template::run(template),
        Command::Key(key) => key::run(key),
        Command::Agent(agent) => agent::run(agent),
        Command::Events(events) => events::run(&events),
        Command::Webhook(webhook) => webhook::run(webhook),
        Command::Audit(audit) => audit::run(&audit),
        Command::Server(server) => server::run(server, run_for),
        Command::Catalog(catalog) => catalog::run(&catalog),
        Command::Demo(demo) => demo::run(&demo),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Version(version) => version::run(&version),
        Command::Help(help) => help::run(&help, Cli::command()),
        Command::Man(man) => man::run(&man, Cli::command()),
        Command::Completions(args) => completions::run(&args, completion::VARIABLE),
    }
}

/// Runs a command on behalf of another process, in the server that holds its
/// store.
fn run_for(args: Vec<OsString>, caller: Caller) -> Result<Exit, CommandFailure> {
    let words = std::iter::once("elevo".into()).chain(args);
    let cli = Cli::try_parse_from(words).map_err(CommandFailure::Usage)?;
    let json = cli.command.is_json();
    let ran = match cli.command {
        Command::Local(local) => local.run_for(caller),
        Command::Store(store) => store.with_place().run_for(caller),
        Command::Ws(ws) => match ws.of_store() {
            Some(ws) => ws.run_for(caller),
            None => return Err(CommandFailure::NotServed),
        },
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
