//! Shows the output of a command in a sandbox and passes signals on to it.

use std::io::{self, Write};

use anyhow::Context;
use elevo_api as api;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client::call::Call;
use crate::client::command_input::{Feeding, RunningCommand};
use crate::client::follow::{Follow, Piece};
use crate::errors::Exit;
use crate::output::reader_left;

/// Signals of this process that are passed on to the command.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    count: u32,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
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

/// Prints output until the command ends.
pub(crate) fn show_command(
    call: &mut Call,
    mut follow: Follow,
    mut signals: Signals,
    target: Option<RunningCommand>,
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
                        // Sends SIGPIPE to the command, as if it had written to
                        // the closed pipe itself.
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
            let bytes = crate::output::format::bytes(bytes);
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
