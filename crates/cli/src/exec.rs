//! Commands in sandboxes: `exec`, `attach`, `ps` and `kill`.

mod input;
mod manage;

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use clap::Args;
use elevo_api as api;
use reqwest::Method;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client::{Client, Follow, Piece, Reach, sandbox_path};
use crate::errors::{Exit, Problem};
use crate::output::reader_left;
use crate::service::{self, Call, variable};

pub(crate) use input::read_ahead;
pub(crate) use manage::{Kill, Ps, kill, ps};

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
  elevo exec \"$id\" --cwd /tmp --env A=1 --timeout 600000 -- ./long.sh
  tar c . | elevo exec \"$id\" -- tar x
  command=$(elevo exec -b \"$id\" -- python -m http.server)")]
pub(crate) struct Exec {
    /// The sandbox
    sandbox: String,

    /// Working directory of the command; /workspace by default
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,

    /// Environment variable for the command; can be repeated
    #[arg(long = "env", short, value_name = "NAME=VALUE", value_parser = variable)]
    envs: Vec<(String, String)>,

    /// Milliseconds after which the command is killed; 0 for never. By default
    /// the server's setting, and never in the background
    #[arg(long, value_name = "MS")]
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

/// Show the output of a command, from the beginning or from an offset.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs until the command ends, and exits with its exit code. Ctrl-C leaves the
command running. The server keeps only the newest output, and a note reports how
much is missing. The exit code is 125 if elevo itself fails.

Examples:
  elevo attach \"$id\" \"$command\"
  elevo attach \"$id\" \"$command\" --offset 4096")]
pub(crate) struct Attach {
    /// The sandbox
    sandbox: String,

    /// Id of the command; `elevo ps` lists them
    command: String,

    /// Bytes of output to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn exec(args: Exec) -> anyhow::Result<Exit> {
    let wants_input = !args.no_stdin && !args.background && !io::stdin().is_terminal();
    let wish = api::RunCommand {
        command: line(&args.command),
        cwd: args.cwd,
        envs: args.envs.into_iter().collect(),
        timeout: args.timeout,
        stream: !args.background,
        background: args.background,
        open_stdin: wants_input,
        ..api::RunCommand::default()
    };
    service::run(&args.reach, |call| match args.background {
        true => background(call, &args.sandbox, &wish),
        false => foreground(call, &args.sandbox, &wish),
    })
}

fn background(call: &mut Call, sandbox: &str, wish: &api::RunCommand) -> anyhow::Result<Exit> {
    let path = sandbox_path(sandbox, &["process", "run"]);
    let started: api::CommandStarted = call.wait(call.client.post(&path, wish))?;
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
    let target = Target {
        client: call.client.clone(),
        sandbox: sandbox.into(),
        command: follow.command().into(),
    };
    let feeding = wish.open_stdin.then(|| input::feed(target.clone()));
    show(call, follow, signals, Some(target), feeding)
}

pub(crate) fn attach(args: &Attach) -> anyhow::Result<Exit> {
    service::run(&args.reach, |call| {
        let (sandbox, command) = (&args.sandbox, &args.command);
        let (signals, follow) = call.wait(async {
            let signals = Signals::new()?;
            let attaching = Follow::attach(&call.client, sandbox, command, args.offset);
            anyhow::Ok((signals, attaching.await?))
        })?;
        show(call, follow, signals, None, None)
    })
}

/// A running command, to send signals and input to.
#[derive(Clone, Debug)]
struct Target {
    client: Client,
    sandbox: String,
    command: String,
}

impl Target {
    /// Sends a signal. Ignores a failure: the command then keeps running, and a
    /// further Ctrl-C leaves it.
    async fn signal(&self, signal: i32) {
        let path = sandbox_path(&self.sandbox, &["process", &self.command, "kill"]);
        let wish = api::Kill {
            signal: Some(signal),
        };
        let mut client = self.client.clone();
        let sending =
            client.done_patiently(|client| client.request(Method::POST, &path).json(&wish));
        let _ = sending.await;
    }
}

/// Signals of this process that are passed on to the command.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    count: u32,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            count: 0,
        })
    }

    /// Waits for a signal. Returns the first one unchanged, and SIGKILL for any
    /// later one.
    async fn next(&mut self) -> i32 {
        let came = tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        };
        self.count += 1;
        if self.count == 1 { came } else { 9 }
    }
}

const SIGPIPE: i32 = 13;

/// Receives an error if passing on the input fails.
type Feeding = tokio::sync::mpsc::Receiver<anyhow::Error>;

/// Prints output until the command ends.
fn show(
    call: &mut Call,
    mut follow: Follow,
    mut signals: Signals,
    target: Option<Target>,
    mut feeding: Option<Feeding>,
) -> anyhow::Result<Exit> {
    loop {
        let step = call.wait(step(&mut follow, &mut signals, &mut feeding))?;
        match (step, &target) {
            (Step::Piece(piece, event), _) => {
                match print(call, piece, &event) {
                    Ok(None) => {}
                    Ok(Some(code)) => return Ok(code),
                    Err(error) => {
                        // As if the command itself had written to a closed pipe.
                        if let Some(target) = target.filter(|_| reader_left(&error)) {
                            call.wait(target.signal(SIGPIPE));
                        }
                        return Err(error);
                    }
                }
            }
            (Step::Signal(signal), Some(target)) if signals.count <= 2 => {
                let target = target.clone();
                call.spawn(async move { target.signal(signal).await });
            }
            // `attach` ends at the first signal, `exec` at the third.
            (Step::Signal(signal), _) => return Ok(Exit::Of(128 + signal as u8)),
        }
    }
}

enum Step {
    Piece(Piece, Box<api::StreamEvent>),
    Signal(i32),
}

async fn step(
    follow: &mut Follow,
    signals: &mut Signals,
    feeding: &mut Option<Feeding>,
) -> anyhow::Result<Step> {
    let failed = async {
        match feeding {
            Some(feeding) => feeding.recv().await,
            None => None,
        }
    };
    tokio::select! {
        signal = signals.next() => Ok(Step::Signal(signal)),
        Some(error) = failed => Err(error),
        next = follow.next() => {
            let (piece, event) = next?;
            Ok(Step::Piece(piece, Box::new(event)))
        }
    }
}

/// Prints a piece. Returns the exit code if it is the last.
fn print(call: &mut Call, piece: Piece, event: &api::StreamEvent) -> anyhow::Result<Option<Exit>> {
    if call.output.is_json() {
        call.output.value(event)?;
        call.output.finish()?;
    }
    match piece {
        Piece::Output { .. } if call.output.is_json() => {}
        Piece::Output {
            is_error: true,
            data,
        } => {
            let mut err = io::stderr().lock();
            err.write_all(&data)
                .context("cannot write to standard error")?;
        }
        Piece::Output { data, .. } => {
            call.output.bytes(&data)?;
            call.output.finish()?;
        }
        Piece::Gap(bytes) => {
            let bytes = crate::format::bytes(bytes);
            call.note(&format!(
                "{bytes} of output are missing, because the server no longer has them"
            ));
        }
        Piece::Exit { code, timed_out } => {
            if timed_out {
                call.note("the command timed out and was killed; --timeout 0 waits forever");
            }
            return Ok(Some(Exit::of_command(code)));
        }
    }
    Ok(None)
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

/// Returns an error unless standard input and output are a terminal.
pub(crate) fn need_terminal() -> Result<(), Problem> {
    match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => Ok(()),
        false => Err(Problem::NoTerminal),
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
