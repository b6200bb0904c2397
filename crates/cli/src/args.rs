//! The command tree. Each command defines its own arguments in its own file.

use clap::{Parser, Subcommand};

use crate::commands::agent::Agent;
use crate::commands::attach::Attach;
use crate::commands::audit::Audit;
use crate::commands::catalog::Catalog;
use crate::commands::completions::Completions;
use crate::commands::context::Context;
use crate::commands::cp::Cp;
use crate::commands::demo::Demo;
use crate::commands::doctor::Doctor;
use crate::commands::down::Down;
use crate::commands::events::Events;
use crate::commands::exec::Exec;
use crate::commands::files::Files;
use crate::commands::help::Help;
use crate::commands::key::Key;
use crate::commands::kill::Kill;
use crate::commands::local::Local;
use crate::commands::login::Login;
use crate::commands::logout::Logout;
use crate::commands::man::Man;
use crate::commands::port::Port;
use crate::commands::project::Project;
use crate::commands::ps::Ps;
use crate::commands::review::Review;
use crate::commands::sandbox::Sandbox;
use crate::commands::server::Server;
use crate::commands::shell::Shell;
use crate::commands::snapshot::Snapshot;
use crate::commands::store::Store;
use crate::commands::template::Template;
use crate::commands::up::Up;
use crate::commands::version::Version;
use crate::commands::webhook::Webhook;
use crate::commands::whoami::Whoami;
use crate::commands::ws::Ws;
use crate::store_command::StoreCommand;

/// Versioned file trees, and sandboxes in which agents change them.
#[derive(Debug, Parser)]
#[command(
    name = "elevo",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  elevo init                          create a store for this directory
  elevo commit -m \"an edit\"           save this directory as a snapshot
  elevo log                           list the snapshots
  elevo ws create                     create a working directory for an agent
  elevo up                            start the server on this machine
  elevo sandbox create python:3.11    create a container and print its id
  elevo exec SANDBOX -- make test     run a command in it
  elevo project create site           create a tree that many agents work on
  elevo ws create --project site      create a workspace of it for one agent
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

    // clap copies the values of these options to the options of the same name of
    // the commands, so that they may stand before the command as well.
    /// Print JSON, errors included
    #[arg(
        id = "json",
        long = "json",
        global = true,
        help_heading = "Common options"
    )]
    _json: bool,

    /// Show no progress and no notes
    #[arg(
        id = "quiet",
        short = 'q',
        long = "quiet",
        global = true,
        help_heading = "Common options"
    )]
    _quiet: bool,

    /// Do not ask for confirmation
    #[arg(id = "yes", short = 'y', long = "yes", global = true, hide = true)]
    _yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Local(Local),
    Up(Up),
    Down(Down),
    Login(Login),
    Logout(Logout),
    Context(Context),
    Whoami(Whoami),
    Sandbox(Sandbox),
    Exec(Exec),
    Shell(Shell),
    Ps(Ps),
    Attach(Attach),
    Kill(Kill),
    Cp(Cp),
    Files(Files),
    Port(Port),
    Project(Project),
    Review(Review),
    Snapshot(Snapshot),
    Template(Template),
    Key(Key),
    Agent(Agent),
    Events(Events),
    Webhook(Webhook),
    Audit(Audit),
    Server(Server),
    Catalog(Catalog),
    Store(Store),
    Ws(Ws),
    Demo(Demo),
    Doctor(Doctor),
    Version(Version),
    Help(Help),
    Man(Man),
    Completions(Completions),
}

impl Command {
    /// Whether the command was called with `--json`.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Up(up) => up.json,
            Self::Down(down) => down.at.json,
            Self::Login(login) => login.json,
            Self::Logout(logout) => logout.json,
            Self::Context(context) => context.json,
            Self::Whoami(whoami) => whoami.reach.json,
            Self::Sandbox(sandbox) => sandbox.reach.json,
            Self::Exec(exec) => exec.reach.json,
            Self::Shell(shell) => shell.reach.json,
            Self::Ps(ps) => ps.reach.json,
            Self::Attach(attach) => attach.reach.json,
            Self::Kill(kill) => kill.reach.json,
            Self::Cp(cp) => cp.reach.json,
            Self::Files(files) => files.reach.json,
            Self::Port(port) => port.reach.json,
            Self::Project(project) => project.reach.json,
            Self::Review(review) => review.reach.json,
            Self::Snapshot(snapshot) => snapshot.reach.json,
            Self::Template(template) => template.reach.json,
            Self::Key(key) => key.reach.json,
            Self::Agent(agent) => agent.reach.json,
            Self::Events(events) => events.reach.json,
            Self::Webhook(webhook) => webhook.reach.json,
            Self::Audit(audit) => audit.json,
            Self::Server(server) => server.at.json,
            Self::Catalog(catalog) => catalog.json,
            Self::Local(local) => local.global().json,
            Self::Store(store) => store.global().json,
            Self::Ws(ws) => ws.global.json,
            Self::Demo(demo) => demo.json,
            Self::Doctor(doctor) => doctor.json,
            Self::Version(version) => version.json,
            Self::Help(_) | Self::Man(_) | Self::Completions(_) => false,
        }
    }

    /// Whether the command exits with the code of a program that it runs, so
    /// that its own failures need a separate code.
    pub(crate) fn ends_as_another(&self) -> bool {
        match self {
            Self::Exec(_) | Self::Attach(_) | Self::Shell(_) => true,
            Self::Ws(ws) => ws.ends_as_another(),
            _ => false,
        }
    }
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
            let shown = command.get_arguments().filter(|it| !it.is_hide_set());
            for option in shown.filter_map(|it| it.get_long()) {
                let known = ["help", "version"].contains(&option);
                let option = format!("`--{option}");
                assert!(known || manual.contains(&option), "{name}: {option}`");
            }
        }
    }

    /// The help of a top-level command and of all commands below it, in a fixed
    /// width.
    fn help_of(noun: &str) -> String {
        let mut root = Cli::command().term_width(100);
        root.build();
        let mut open = vec![root.find_subcommand(noun).unwrap().clone()];
        let mut text = String::new();
        while let Some(mut command) = open.pop() {
            let below = command.get_subcommands().filter(|it| !it.is_hide_set());
            let mut below: Vec<_> = below.cloned().collect();
            below.reverse();
            let name = command.get_bin_name().unwrap_or(noun).to_owned();
            text += &format!("# {name}\n\n{}\n", command.render_long_help());
            open.extend(below);
        }
        text
    }

    #[test]
    fn the_help_of_every_command_is_as_before() {
        let mut root = Cli::command().term_width(100);
        insta::assert_snapshot!("help", root.render_long_help());
        let root = Cli::command();
        for noun in root.get_subcommands().filter(|it| !it.is_hide_set()) {
            let noun = noun.get_name();
            insta::assert_snapshot!(format!("help-{noun}"), help_of(noun));
        }
    }

    #[test]
    fn only_options_of_several_commands_are_common_options() {
        for (name, command) in commands() {
            let common = |arg: &&clap::Arg| arg.get_help_heading() == Some("Common options");
            for arg in command.get_arguments().filter(common) {
                assert!(arg.is_global_set(), "{name}: {}", arg.get_id());
            }
        }
    }

    #[test]
    fn common_options_stand_before_or_after_the_command() {
        for words in [
            "--json doctor",
            "doctor --json",
            "--json server status",
            "server --json status",
            "server status --json",
            "--json context ls",
            "-q --json project ls",
            "-y --json project rm site",
            "project rm site -y --json",
        ] {
            let words = std::iter::once("elevo").chain(words.split(' '));
            let cli = Cli::try_parse_from(words.clone()).unwrap();
            assert!(cli.command.is_json(), "{words:?}");
        }
    }

    #[test]
    fn nouns_share_their_verbs() {
        for words in [
            "agent create reviewer",
            "agent list",
            "template create python:3.11",
            "webhook create https://example.com",
            "template show python:3.11",
            "key rm ci",
            "key revoke ci",
            "review approve rev-1 --take suggested",
            "webhook delete wh-1",
            "key list",
            "project delete site",
            "sandbox list",
            "review list",
            "ws list",
            "ws exec try-1 -- make",
            "ws exec -- make -j4",
        ] {
            let words = std::iter::once("elevo").chain(words.split(' '));
            assert!(Cli::try_parse_from(words.clone()).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn durations_may_have_a_unit() {
        for words in [
            "key create ci --expires 7d",
            "port link sbx-1 3000 --expires 15m",
            "sandbox create --timeout 2h",
            "sandbox fork sbx-1 --timeout 30m",
            "sandbox extend sbx-1 90s",
            "exec sbx-1 --timeout 10m -- make",
            "exec sbx-1 --timeout 600000 -- make",
        ] {
            let words = std::iter::once("elevo").chain(words.split(' '));
            assert!(Cli::try_parse_from(words.clone()).is_ok(), "{words:?}");
        }
        let wrong = ["elevo", "key", "create", "ci", "--expires", "1.5h"];
        assert!(Cli::try_parse_from(wrong).is_err());
    }
}
