//! `elevo exec`: runs a command in a sandbox.

use std::io::{self, IsTerminal};

use clap::Args;
use elevo_api as api;

use crate::client::command::{Signals, show_command};
use crate::client::command_input::{self, RunningCommand};
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::client::{self, Call, Follow, Reach, random_name};
use crate::errors::Exit;
use crate::input::duration::milliseconds;
use crate::input::variable::variable;

/// Run a command in a sandbox, with its output and its exit code.
#[derive(Debug, Args)]
#[command(after_help = "\
A single word after `--` is a command line for the sandbox's shell; several
words are a program and its arguments, passed on unchanged. Standard input is
passed on unless it is a terminal. Ctrl-C interrupts the command, and a second
Ctrl-C kills it. If the connection is lost or the server restarts, the output
continues where it stopped. The exit code is 125 if elevo itself fails.

Examples:
  elevo exec \"$id\" -- make test
  elevo exec \"$id\" -- 'cd src && grep -r TODO . | wc -l'
  elevo exec \"$id\" --cwd /tmp --env A=1 --timeout 10m -- ./long.sh
  tar c . | elevo exec \"$id\" -- tar x
  command=$(elevo exec -b \"$id\" -- python -m http.server)")]
pub(crate) struct Exec {
    /// The sandbox, by id, name or unique prefix of its id
    sandbox: String,

    /// Working directory of the command; /workspace by default
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,

    /// Environment variable for the command; can be repeated
    #[arg(long = "env", short, value_name = "NAME=VALUE", value_parser = variable)]
    envs: Vec<(String, String)>,

    /// Time after which the command is killed: milliseconds, or with s, m, h or d;
    /// 0 for never. By default the server's setting, and never in the background
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    timeout: Option<u32>,

    /// Run the command in the background and print its id
    #[arg(short, long)]
    background: bool,

    /// Do not pass standard input on
    #[arg(long)]
    no_stdin: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn run(args: Exec) -> anyhow::Result<Exit> {
    let wants_input = !args.no_stdin && !args.background && !io::stdin().is_terminal();
    let wish = api::RunCommand {
        command_id: Some(format!("cmd-{}", random_name()?)),
        command: Some(line(&args.command)),
        cwd: args.cwd,
        envs: args.envs.into_iter().collect(),
        timeout: args.timeout,
        stream: !args.background,
        background: args.background,
        open_stdin: wants_input,
        ..api::RunCommand::default()
    };
    client::run_on_server(&args.reach, |call| {
        let sandbox = find(call, Noun::Sandbox, &args.sandbox)?;
        match args.background {
            true => background(call, &sandbox, &wish),
            false => foreground(call, &sandbox, &wish),
        }
    })
}

fn background(call: &mut Call, sandbox: &str, wish: &api::RunCommand) -> anyhow::Result<Exit> {
    let path = sandbox_path(sandbox, &["process", "run"]);
    let starting = call
        .client
        .once(async |client| client.post(&path, wish).await);
    let started: api::CommandStarted = call.wait(starting)?;
    match call.output.is_json() {
        true => call.output.value(&started)?,
        false => call.output.line(&started.command_id)?,
    }
    Ok(Exit::Done)
}

fn foreground(call: &mut Call, sandbox: &str, wish: &api::RunCommand) -> anyhow::Result<Exit> {
    let (signals, follow) = call.wait(async {
        let signals = Signals::new()?;
        let follow = Follow::run(&call.client, sandbox, wish).await?;
        anyhow::Ok((signals, follow))
    })?;
    let target = RunningCommand {
        client: call.client.clone(),
        sandbox: sandbox.into(),
        command: follow.command().into(),
    };
    let feeding = wish.open_stdin.then(|| command_input::feed(target.clone()));
    show_command(call, follow, signals, Some(target), feeding)
}

/// Joins the words into a command line for the shell.
fn line(words: &[String]) -> String {
    match words {
        [one] => one.clone(),
        many => many
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_for_the_shell_and_several_are_a_program() {
        let line = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
            line(&words)
        };
        assert_eq!(line(&["cd src && ls | wc -l"]), "cd src && ls | wc -l");
        assert_eq!(line(&["ls", "-l", "a b"]), "ls -l 'a b'");
        assert_eq!(
            line(&["echo", "it's", "", "$HOME", "a;b"]),
            r"echo 'it'\''s' '' '$HOME' 'a;b'"
        );
    }
}
