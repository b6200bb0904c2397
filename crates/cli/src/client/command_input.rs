//! Passes standard input on to a command, one piece after another. Input that the
//! command does not read is not read here either, except a few pieces ahead.

use std::io::{self, Read};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use elevo_api::{self as api, CommandInput};
use reqwest::Method;
use tokio::sync::mpsc;

use crate::client::error::ClientError;
use crate::client::http::Client;
use crate::client::paths::sandbox_path;
use crate::errors::SandboxProblem;

/// Maximum bytes of a piece.
const PIECE: usize = 256 << 10;

/// Maximum number of pieces read ahead.
const AHEAD: usize = 2;

/// Passes standard input on until it ends. The receiver gets an error if the
/// command may not have received all of it.
pub(crate) fn feed(target: RunningCommand) -> Feeding {
    let (failed, failure) = mpsc::channel(1);
    let pieces = read_ahead();
    // In a separate thread that is never joined: it may wait for input long
    // after the command has ended.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let fed = match runtime {
            Ok(runtime) => runtime.block_on(send_all(target, pieces)),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = fed {
            let _ = failed.blocking_send(error);
        }
    });
    failure
}

/// Reads standard input in a thread, at most a few pieces ahead.
pub(crate) fn read_ahead() -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = match stdin.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => Ok(Bytes::copy_from_slice(&buffer[..length])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            if sender.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

async fn send_all(
    mut target: RunningCommand,
    mut pieces: mpsc::Receiver<io::Result<Bytes>>,
) -> anyhow::Result<()> {
    while let Some(piece) = pieces.recv().await {
        let piece = piece.map_err(SandboxProblem::Input)?;
        let wish = CommandInput {
            data: BASE64_STANDARD.encode(&piece),
            eof: false,
        };
        if !send(&mut target, &wish).await? {
            return Ok(());
        }
    }
    let end = CommandInput {
        data: String::new(),
        eof: true,
    };
    send(&mut target, &end).await?;
    Ok(())
}

/// Sends a piece. Returns whether the command accepts more. Retries while the
/// server restarts, but never if the piece may have arrived.
async fn send(target: &mut RunningCommand, wish: &CommandInput) -> anyhow::Result<bool> {
    let (sandbox, command) = (target.sandbox.clone(), target.command.clone());
    let path = sandbox_path(&sandbox, &["process", &command, "input"]);
    let client = &mut target.client;
    let sending = client.done_patiently(|client| client.request(Method::POST, &path).json(wish));
    match sending.await {
        Ok(()) => Ok(true),
        // The command has ended or has closed its input.
        Err(ClientError::Refused(_)) => Ok(false),
        Err(source) => {
            let command = target.command.clone();
            Err(SandboxProblem::InputLost { command, source }.into())
        }
    }
}

/// A running command, to send signals and input to.
#[derive(Clone, Debug)]
pub(crate) struct RunningCommand {
    pub(crate) client: Client,
    pub(crate) sandbox: String,
    pub(crate) command: String,
}

impl RunningCommand {
    /// Sends a signal. Ignores a failure: the command then keeps running, and a
    /// further Ctrl-C leaves it.
    pub(crate) async fn signal(&self, signal: i32) {
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

/// Receives an error if passing on the input fails.
pub(crate) type Feeding = tokio::sync::mpsc::Receiver<anyhow::Error>;
