//! The command tree and the common options. Each command defines its own
//! arguments in its own file.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::audit::Audit;
use crate::cp::Cp;
use crate::doctor::Doctor;
use crate::event::Events;
use crate::exec::{Attach, Exec, Kill, Ps};
use crate::key::{Agent, Key};
use crate::project::Project;
use crate::review::Review;
use crate::sandbox::Sandbox;
use crate::server::Server;
use crate::shell::Shell as OpenShell;
use crate::state::{
    backup, cat, checkout, commit, diff, export, gc, import, init, log, ls, repair, restore, show,
    tag, verify,
};
use crate::template::Template;
use crate::up::Up;
use crate::webhook::Webhook;
use crate::ws::Ws;

/// Versioned file trees, and sandboxes in which agents change them.
#[derive(Debug, Parser)]
#[command(
    name = "elevo",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  elevo state init                    create a store for this directory
  elevo state commit -m \"an edit\"     save this directory as a snapshot
  elevo state log                     list the snapshots
  elevo ws create                     create a working directory for an agent
  elevo up                            start the server for sandboxes
  elevo sandbox create python:3.11    create a container and print its id
  elevo exec SANDBOX -- make test     run a command in it
  elevo project create site           create a tree that many agents work on
  elevo ws create --project site      create one agent's workspace of it
  elevo doctor                        check what this machine supports
  elevo completions bash              print a completion script for the shell

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 conflict, 5 busy,
6 store damaged or of a newer format, 7 `diff --exit-code` found differences,
8 part of a merge is held for review or was refused; the rest has landed.
`exec`, `attach` and `shell` exit with the code of the command they ran, or
with 125 if they failed themselves."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(Up),
    Sandbox(Sandbox),
    Exec(Exec),
    Shell(OpenShell),
    Ps(Ps),
    Attach(Attach),
    Kill(Kill),
    Cp(Cp),
    Project(Project),
    Review(Review),
    Template(Template),
    Key(Key),
    Agent(Agent),
    Events(Events),
    Webhook(Webhook),
    Audit(Audit),
    Server(Server),
    State(State),
    Ws(Ws),
    Doctor(Doctor),
    /// Print a script that completes `elevo` commands in a shell
    #[command(after_help = "\
Examples:
  elevo completions bash > ~/.local/share/bash-completion/completions/elevo
  elevo completions zsh > ~/.zfunc/_elevo         with fpath+=~/.zfunc in ~/.zshrc
  elevo completions fish > ~/.config/fish/completions/elevo.fish")]
    Completions {
        /// Shell to complete commands for
        shell: Shell,
    },
}

impl Command {
    /// Whether the command was called with `--json`.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Up(up) => up.json,
            Self::Sandbox(sandbox) => sandbox.reach.json,
            Self::Exec(exec) => exec.reach.json,
            Self::Shell(shell) => shell.reach.json,
            Self::Ps(ps) => ps.reach.json,
            Self::Attach(attach) => attach.reach.json,
            Self::Kill(kill) => kill.reach.json,
            Self::Cp(cp) => cp.reach.json,
            Self::Project(project) => project.reach.json,
            Self::Review(review) => review.reach.json,
            Self::Template(template) => template.reach.json,
            Self::Key(key) => key.reach.json,
            Self::Agent(agent) => agent.reach.json,
            Self::Events(events) => events.reach.json,
            Self::Webhook(webhook) => webhook.reach.json,
            Self::Audit(audit) => audit.json,
            Self::Server(server) => server.at.json,
            Self::State(state) => state.global.json,
            Self::Ws(ws) => ws.global.json,
            Self::Doctor(doctor) => doctor.json,
            Self::Completions { .. } => false,
        }
    }

    /// Whether the exit code is that of a program it runs, so that failures of
    /// the command itself need a separate code.
    pub(crate) fn ends_as_another(&self) -> bool {
        match self {
            Self::Exec(_) | Self::Attach(_) | Self::Shell(_) => true,
            Self::Ws(ws) => ws.ends_as_another(),
            _ => false,
        }
    }
}

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
    pub(crate) command: StateCommand,
}

impl State {
    /// Whether the process that holds the store must run the command. Most of
    /// these commands write to the store.
    pub(crate) fn writes(&self) -> bool {
        match &self.command {
            // These need a current view of the store, which only its holder has.
            StateCommand::Verify(_) | StateCommand::Repair(_) | StateCommand::Backup(_) => true,
            StateCommand::Import(_) | StateCommand::Commit(_) => true,
            StateCommand::Tag(tag) => tag.writes(),
            _ => false,
        }
    }

    /// Whether it reads standard input.
    pub(crate) fn reads_input(&self) -> bool {
        matches!(&self.command, StateCommand::Import(import) if import.tar.is_input())
    }

    /// The directory argument, if the store may be found through it.
    pub(crate) fn directory(&self) -> Option<&std::path::Path> {
        match &self.command {
            StateCommand::Commit(commit) => commit.directory(),
            _ => None,
        }
    }
}

/// Options of every command of `elevo state` and `elevo ws`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// Path of the store; by default found from the current directory upwards
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "ELEVO_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<PathBuf>,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show no progress and no notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Threads that read and write files; all processors by default
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// How long to wait for another process that is writing to the store
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) wait: u64,
}

/// The commands of `elevo state`, each defined in its own file.
#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
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

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;

    /// Returns every command that is not hidden, with its full name.
    fn commands() -> Vec<(String, Command)> {
        let mut root = Cli::command();
        root.build();
        let mut open = vec![("elevo".to_owned(), root)];
        let mut found = Vec::new();
        while let Some((name, command)) = open.pop() {
            for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
                open.push((format!("{name} {}", below.get_name()), below.clone()));
            }
            found.push((name, command));
        }
        found
    }

    #[test]
    fn the_command_line_is_coherent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_explains_itself_with_examples() {
        for (name, mut command) in commands() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{name}: {help}");
            assert!(help.contains("elevo "), "{name}: {help}");
        }
    }

    #[test]
    fn the_manual_names_every_command_and_option() {
        let manual = include_str!("../../../docs/cli.md");
        for (name, command) in commands() {
            assert!(manual.contains(&format!("`{name}")), "`{name}` is missing");
            for option in command.get_arguments().filter_map(|it| it.get_long()) {
                let known = ["help", "version"].contains(&option);
                let option = format!("`--{option}");
                assert!(known || manual.contains(&option), "{name}: {option}`");
            }
        }
    }
}
