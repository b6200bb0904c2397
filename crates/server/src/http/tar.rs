//! A tar as an answer, sent while it is being written.

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
/// How long a piece waits for its reader. The archive holds a thread meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where blocking code writes an archive to. It waits for its reader, and gives up
/// on one that takes no piece for a minute. What was not
/// flushed is gone when it is dropped: an archive that failed before its first
/// piece was sent is an error like any other.
#[derive(Debug)]
pub(super) struct Pipe {
    buffer: Vec<u8>,
    sender: mpsc::Sender<Result<Bytes>>,
    runtime: Handle,
}

/// What is written to a pipe, for its answer.
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
    /// Answers once there is a first piece. A failure before that is the answer,
    /// one after it breaks the body off, which whoever reads it sees.
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
    // What came before it leaves first, with the head of the answer: hyper drops
    // what it has not written yet when a body fails.
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
                true => Err(Failure::new(ErrorCode::ArchiveRefused, "it is refused")),
                false => Ok(()),
            }
        });
        written.answer(async { packing.await.unwrap() }).await
    }

    #[tokio::test]
    async fn all_that_is_written_is_sent() {
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
    async fn what_fails_before_its_first_piece_is_an_error() {
        for length in [0, 1, PIECE - 1] {
            let write = move |pipe: &mut Pipe| pipe.write_all(&vec![0; length]).unwrap();
            let answer = answer(write, true).await;
            assert!(answer.is_err(), "{length}");
        }
    }

    #[tokio::test]
    async fn what_fails_later_breaks_off() {
        let write = |pipe: &mut Pipe| pipe.write_all(&[7; PIECE]).unwrap();
        let mut body = answer(write, true).await.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap().len(), PIECE);
        assert!(body.frame().await.unwrap().is_err());
    }
}
