//! Output of a command as it arrives, across lost connections and restarts of
//! the server, without loss or repetition.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use elevo_api::{Encoding, RunCommand, StreamEvent, StreamKind};
use reqwest::{Method, Response};

use crate::client::again::BackOff;
use crate::client::error::{ClientError, Result};
use crate::client::events::{Events, decode};
use crate::client::http::Client;
use crate::client::paths::sandbox_path;

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Follow {
    client: Client,
    sandbox: String,
    command: String,
    /// Offset in the output up to which pieces were returned.
    position: u64,
    events: Option<Events>,
    /// Pauses between retries since the last piece of output.
    back_off: BackOff,
}

/// A piece of the output of a command, or its end.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Bytes of standard output or standard error.
    Output { is_error: bool, data: Vec<u8> },
    /// Number of bytes that the server no longer has.
    Gap(u64),
    /// The exit of the command; always the last piece.
    Exit { code: i32, timed_out: bool },
}

impl Follow {
    /// Starts a command and returns once it is running. `wish` has a
    /// `commandId`, so that a retry attaches to the command.
    pub(crate) async fn run(client: &Client, sandbox: &str, wish: &RunCommand) -> Result<Self> {
        let path = sandbox_path(sandbox, &["process", "run"]);
        let (start, events) = client
            .once(async |client| {
                let answer = client.send(client.request(Method::POST, &path).json(wish));
                let mut events = Events::new(client, answer.await?);
                let start = match events.next().await? {
                    Some(event) => decode::<StreamEvent>(&event)?,
                    None => return Err(ended()),
                };
                Ok((start, events))
            })
            .await?;
        Ok(Self {
            client: client.clone(),
            sandbox: sandbox.into(),
            command: start.command_id,
            position: 0,
            events: Some(events),
            back_off: BackOff::new(),
        })
    }

    /// Follows the output of a command that is already running, from an offset.
    pub(crate) async fn attach(
        client: &Client,
        sandbox: &str,
        command: &str,
        offset: u64,
    ) -> Result<Self> {
        let mut follow = Self {
            client: client.clone(),
            sandbox: sandbox.into(),
            command: command.into(),
            position: offset,
            events: None,
            back_off: BackOff::new(),
        };
        let answer = follow.connect().await?;
        follow.events = Some(Events::new(client, answer));
        Ok(follow)
    }

    /// The command's id.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    async fn connect(&self) -> Result<Response> {
        let (sandbox, command) = (&self.sandbox, &self.command);
        let path = sandbox_path(sandbox, &["process", command, "output"]);
        let request = self.client.request(Method::GET, &path);
        let offset = [("offset", self.position)];
        self.client.send(request.query(&offset)).await
    }

    /// Returns the next piece. Reconnects if the connection is lost.
    pub(crate) async fn next(&mut self) -> Result<(Piece, StreamEvent)> {
        loop {
            match self.try_next().await {
                Ok(Some(found)) => {
                    self.back_off = BackOff::new();
                    return Ok(found);
                }
                Ok(None) => {}
                Err(error) if error.is_worth_repeating() => {
                    self.events = None;
                    self.back_off.wait(error).await?;
                    self.client.look_again();
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<(Piece, StreamEvent)>> {
        let Some(events) = &mut self.events else {
            let answer = self.connect().await?;
            self.events = Some(Events::new(&self.client, answer));
            return Ok(None);
        };
        let Some(event) = events.next().await? else {
            return Err(ended());
        };
        let after = event.id.as_ref().and_then(|id| id.parse().ok());
        let event: StreamEvent = decode(&event)?;
        let piece = match event.kind {
            StreamKind::Start => return Ok(None),
            StreamKind::Stdout | StreamKind::Stderr => {
                let data = bytes_of(&event)?;
                let offset = event.offset.unwrap_or(self.position);
                self.position = after.unwrap_or(offset + data.len() as u64);
                let is_error = event.kind == StreamKind::Stderr;
                Piece::Output { is_error, data }
            }
            StreamKind::Gap => {
                let end = event.end.unwrap_or(self.position);
                let lost = end.saturating_sub(self.position);
                self.position = end;
                Piece::Gap(lost)
            }
            StreamKind::Exit => Piece::Exit {
                code: event.exit_code.unwrap_or(1),
                timed_out: event.timed_out,
            },
            // The caller retries, so a server that is stopping is asked again
            // once it is back.
            StreamKind::Stopping => {
                let message = event.message.unwrap_or_default();
                return Err(ClientError::Told { message });
            }
            StreamKind::Error => {
                return Err(match event.error {
                    Some(error) => ClientError::Refused(Box::new(error)),
                    None => ClientError::Stream("an error event without an error"),
                });
            }
        };
        Ok(Some((piece, event)))
    }
}

fn ended() -> ClientError {
    let message = "the server ended the connection".into();
    ClientError::Told { message }
}

fn bytes_of(event: &StreamEvent) -> Result<Vec<u8>> {
    let data = event.data.as_deref().unwrap_or_default();
    match event.encoding {
        Encoding::Utf8 => Ok(data.as_bytes().to_vec()),
        Encoding::Base64 => BASE64_STANDARD
            .decode(data)
            .map_err(|_| ClientError::Stream("invalid base64")),
    }
}
