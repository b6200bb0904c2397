//! A response with a tar that is sent while it is written.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio_stream::wrappers::ReceiverStream;

use crate::failure::{Failure, Result};
use crate::http::answer::Answer;

const PIECE: usize = 128 << 10;
const PIECES: usize = 8;
/// Maximum time that a piece waits for the client. The archive occupies a
/// thread during this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A writer through which blocking code sends an archive to a client. A write
/// waits for the client, and fails if the client receives no piece for a
/// minute. Bytes that were not flushed are lost on drop, so a failure before
/// the first piece was sent becomes an ordinary error response.
#[derive(Debug)]
pub(super) struct Pipe {
    buffer: Vec<u8>,
    sender: mpsc::Sender<Result<Bytes>>,
    runtime: Handle,
}

/// The receiving end of a pipe.
#[derive(Debug)]
pub(super) struct Written {
    sender: mpsc::Sender<Result<Bytes>>,
    receiver: mpsc::Receiver<Result<Bytes>>,
}

pub(super) fn pipe() -> (Pipe, Written) {
    let (sender, receiver) = mpsc::channel(PIECES);
    let buffer = Vec::with_capacity(PIECE);
    let pipe = Pipe {
        buffer,
        sender: sender.clone(),
        runtime: Handle::current(),
    };
    (pipe, Written { sender, receiver })
}

impl Written {
    /// Responds when the first piece is available. A failure before the first
    /// piece becomes the response. A later failure aborts the body, which the
    /// client detects.
    pub(super) async fn answer(
        self,
        packing: impl Future<Output = Result<()>> + Send + 'static,
    ) -> Answer<Response> {
        let Self {
            sender,
            mut receiver,
        } = self;
        tokio::spawn(async move {
            if let Err(failure) = packing.await {
                let _ = sender.send(Err(failure)).await;
            }
        });
        let first = receiver.recv().await.transpose()?;
        let first = stream::iter(first.map(Ok));
        let pieces = first.chain(ReceiverStream::new(receiver));
        let body = Body::from_stream(pieces.or_else(broken_off));
        let kind = [(header::CONTENT_TYPE, "application/x-tar")];
        Ok((kind, body).into_response())
    }
}

async fn broken_off(failure: Failure) -> io::Result<Bytes> {
    // Lets hyper send the head and earlier pieces first: when a body fails,
    // hyper drops everything it has not written yet.
    tokio::task::yield_now().await;
    Err(io::Error::other(failure.summary()))
}

impl io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(PIECE - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..fits]);
        if self.buffer.len() == PIECE {
            self.flush()?;
        }
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        let sending = self.sender.send_timeout(Ok(piece.into()), PATIENCE);
        let sent = self.runtime.block_on(sending);
        sent.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => io::ErrorKind::TimedOut.into(),
            SendTimeoutError::Closed(_) => io::ErrorKind::BrokenPipe.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use elevo_core::ErrorCode;
    use http_body_util::BodyExt;

    use super::*;

    async fn answer(
        write: impl FnOnce(&mut Pipe) + Send + 'static,
        fails: bool,
    ) -> Answer<Response> {
        let (mut pipe, written) = pipe();
        let packing = tokio::task::spawn_blocking(move || {
            write(&mut pipe);
            match fails {
                true => Err(Failure::new(
                    ErrorCode::ArchiveRefused,
                    "the archive is rejected",
                )),
                false => Ok(()),
            }
        });
        written.answer(async { packing.await.unwrap() }).await
    }

    #[tokio::test]
    async fn sends_everything_that_is_written() {
        let written: Vec<u8> = (0..3 * PIECE + 5).map(|at| at as u8).collect();
        let expected = written.clone();
        let write = move |pipe: &mut Pipe| {
            pipe.write_all(&written).unwrap();
            pipe.flush().unwrap();
        };
        let body = answer(write, false).await.unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), expected);
    }

    #[tokio::test]
    async fn a_failure_before_the_first_piece_is_an_error() {
        for length in [0, 1, PIECE - 1] {
            let write = move |pipe: &mut Pipe| pipe.write_all(&vec![0; length]).unwrap();
            let answer = answer(write, true).await;
            assert!(answer.is_err(), "{length}");
        }
    }

    #[tokio::test]
    async fn a_later_failure_aborts_the_body() {
        let write = |pipe: &mut Pipe| pipe.write_all(&[7; PIECE]).unwrap();
        let mut body = answer(write, true).await.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap().len(), PIECE);
        assert!(body.frame().await.unwrap().is_err());
    }
}
