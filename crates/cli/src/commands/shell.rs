//! `elevo shell`: connects this terminal to one in a sandbox.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use elevo_api::CreatePty;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::client::command_input::read_ahead;
use crate::client::names::{Noun, find};
use crate::client::{self, Call, ClientError, Heard, Keys, Reach, Terminal};
use crate::errors::{Exit, SandboxProblem};
use crate::input::terminal::need_terminal;
use crate::input::variable::variable;

/// Open a terminal in a sandbox, and exit with the code of its shell.
#[derive(Debug, Args)]
#[command(after_help = "\
All input goes to the shell in the sandbox, including Ctrl-C. If the connection
is lost or the server restarts, the terminal continues where it stopped; while
it is disconnected, Ctrl-C closes it. The exit code is 125 if elevo itself
fails.

Examples:
  elevo shell \"$id\"
  elevo shell \"$id\" --shell /bin/sh --cwd /tmp")]
pub(crate) struct Shell {
    /// The sandbox, by id, name or unique prefix of its id
    sandbox: String,

    /// Program to run; by default bash if the sandbox has it, otherwise sh
    #[arg(long, value_name = "PATH")]
    shell: Option<String>,

    /// Working directory of the shell; /workspace by default
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,

    /// Environment variable for the shell; can be repeated
    #[arg(long = "env", short, value_name = "NAME=VALUE", value_parser = variable)]
    envs: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// Interval of keep-alives.
const PING: Duration = Duration::from_secs(25);

/// Maximum time to close the terminal when the user leaves.
const CLOSING: Duration = Duration::from_secs(3);

/// The byte that Ctrl-C sends in raw mode.
const CTRL_C: u8 = 3;

pub(crate) fn run(args: Shell) -> anyhow::Result<Exit> {
    need_terminal()?;
    client::run_on_server(&args.reach, |call| {
        let (cols, rows) = window();
        let mut envs: std::collections::BTreeMap<_, _> = args.envs.into_iter().collect();
        if let Ok(kind) = std::env::var("TERM") {
            envs.entry("TERM".into()).or_insert(kind);
        }
        let wish = CreatePty {
            cols,
            rows,
            shell: args.shell,
            cwd: args.cwd,
            envs,
        };
        let sandbox = find(call, Noun::Sandbox, &args.sandbox)?;
        let code = open(call, &sandbox, &wish)?;
        Ok(Exit::of_command(code))
    })
}

fn open(call: &Call, sandbox: &str, wish: &CreatePty) -> anyhow::Result<i32> {
    let (mut terminal, keys, signals) = call.wait(async {
        let signals = Signals::new()?;
        let mut terminal = Terminal::create(&call.client, sandbox, wish).await?;
        let keys = terminal.connect().await?;
        anyhow::Ok((terminal, keys, signals))
    })?;
    let raw = Raw::enter()?;
    let typed = read_ahead();
    let mut seat = Seat {
        keys,
        typed: Some(typed),
        pending: None,
        signals,
        resize: None,
    };
    let ended = call.wait(seat.serve(&mut terminal));
    drop(raw);
    if matches!(ended, Err(ref error) if error.is::<Left>()) {
        // The terminal is not used again. If this fails, the server closes it
        // after a while.
        let _ = call.wait(async { timeout(CLOSING, terminal.close()).await });
    }
    ended
}

/// The user left the terminal, or this process was asked to end.
#[derive(Debug, thiserror::Error)]
#[error("the terminal was closed")]
struct Left;

/// Signals handled while a terminal is open. In raw mode Ctrl-C is input, not a
/// signal.
struct Signals {
    resized: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

/// The local side of a terminal: its input, its signals and its size.
struct Seat {
    keys: Keys,
    /// Keyboard input; `None` once it has ended.
    typed: Option<mpsc::Receiver<io::Result<Bytes>>>,
    /// Input that is not sent yet.
    pending: Option<Bytes>,
    signals: Signals,
    /// A new window size that is not sent yet.
    resize: Option<(u16, u16)>,
}

impl Seat {
    /// Runs until the shell ends. Returns its exit code.
    async fn serve(&mut self, terminal: &mut Terminal) -> anyhow::Result<i32> {
        let mut ticks = interval(PING);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.tell_size();
            tokio::select! {
                heard = terminal.hear() => match heard {
                    Ok(Heard::Output(data)) => block_in_place(|| show(&data))?,
                    Ok(Heard::Exit(code)) => return Ok(code),
                    Err(error) if error.is_worth_repeating() => self.come_back(terminal).await?,
                    Err(error) => return Err(error.into()),
                },
                typed = next(&mut self.typed), if self.pending.is_none() => self.take(typed)?,
                Some(room) = self.keys.clone().room(), if self.pending.is_some() => {
                    room.type_in(&self.pending.take().unwrap_or_default());
                }
                _ = self.signals.resized.recv() => self.resize = Some(window()),
                _ = self.signals.terminate.recv() => return Err(Left.into()),
                _ = self.signals.hang_up.recv() => return Err(Left.into()),
                _ = ticks.tick() => self.keys.ping(),
            }
        }
    }

    fn tell_size(&mut self) {
        if let Some((cols, rows)) = self.resize
            && self.keys.resize(cols, rows)
        {
            self.resize = None;
        }
    }

    fn take(&mut self, typed: Option<io::Result<Bytes>>) -> Result<(), SandboxProblem> {
        match typed {
            Some(typed) => self.pending = Some(typed.map_err(SandboxProblem::Input)?),
            None => self.typed = None,
        }
        Ok(())
    }

    /// Reconnects, unless the user presses Ctrl-C.
    async fn come_back(&mut self, terminal: &mut Terminal) -> anyhow::Result<()> {
        block_in_place(|| {
            show(b"\r\n[connection lost, reconnecting; Ctrl-C closes the terminal]\r\n")
        })?;
        let connecting = terminal.connect();
        let leaving = async {
            while let Some(typed) = next(&mut self.typed).await {
                if typed.is_ok_and(|typed| typed.contains(&CTRL_C)) {
                    return;
                }
            }
            std::future::pending().await
        };
        self.keys = tokio::select! {
            keys = connecting => keys.map_err(ended)?,
            () = leaving => return Err(Left.into()),
            _ = self.signals.terminate.recv() => return Err(Left.into()),
            _ = self.signals.hang_up.recv() => return Err(Left.into()),
        };
        self.resize = Some(window());
        Ok(())
    }
}

/// Adds context to a failed reconnect: the terminal may have ended in the
/// meantime.
fn ended(error: ClientError) -> anyhow::Error {
    anyhow::Error::new(error).context("cannot reconnect to the terminal")
}

async fn next(typed: &mut Option<mpsc::Receiver<io::Result<Bytes>>>) -> Option<io::Result<Bytes>> {
    match typed {
        Some(typed) => typed.recv().await,
        None => std::future::pending().await,
    }
}

fn show(data: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(data)?;
    out.flush()
}

/// Columns and rows of this terminal.
fn window() -> (u16, u16) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (size.ws_col.min(1000), size.ws_row.min(1000))
        }
        _ => (80, 24),
    }
}

/// This terminal in raw mode; dropping it restores the previous mode.
struct Raw(Termios);

impl Raw {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}
