//! The direction of a tunnel from the server to the agent: a buffer between the
//! writer in the server and the HTTP/2 stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use elevo_agent_proto::v1::TunnelPiece;
use elevo_agent_proto::{MAX_PIECE, data_piece, end_piece};
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

#[derive(Default)]
struct Pipe {
    first: Option<TunnelPiece>,
    /// At most one piece that was written and not sent.
    data: BytesMut,
    /// The writer has ended this direction.
    is_ended: bool,
    end_is_sent: bool,
    /// The writer is dropped.
    is_dropped: bool,
    /// The HTTP/2 stream is gone.
    is_broken: bool,
    to_send: Option<Waker>,
    to_write: Option<Waker>,
    /// The tunnel's place. A tunnel that the server has dropped keeps its place
    /// while its data waits for the agent: the HTTP/2 stream still exists, and
    /// the HTTP/2 library asks for no other piece before it has sent this data.
    _place: Option<OwnedSemaphorePermit>,
}

/// The end of the pipe that the server writes to.
pub(super) struct PipeWriter(Arc<Mutex<Pipe>>);

/// The pieces for the agent.
pub(crate) struct Pieces(Arc<Mutex<Pipe>>);

pub(super) fn pipe() -> (PipeWriter, Pieces) {
    let pipe = Arc::new(Mutex::new(Pipe::default()));
    (PipeWriter(Arc::clone(&pipe)), Pieces(pipe))
}

impl PipeWriter {
    /// Writes the beginning of some buffers. Returns the number of bytes that
    /// had space.
    pub(super) fn poll_write(
        &self,
        context: &Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.lock();
        if pipe.is_broken || pipe.is_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let before = pipe.data.len();
        for buffer in buffers {
            let room = MAX_PIECE - pipe.data.len();
            pipe.data
                .extend_from_slice(&buffer[..buffer.len().min(room)]);
        }
        let written = pipe.data.len() - before;
        if written == 0 && buffers.iter().any(|buffer| !buffer.is_empty()) {
            pipe.to_write = Some(context.waker().clone());
            return Poll::Pending;
        }
        wake(pipe.to_send.take());
        Poll::Ready(Ok(written))
    }

    /// Keeps the tunnel's place until both ends of the pipe are dropped.
    pub(super) fn keep(&self, place: OwnedSemaphorePermit) {
        self.0.lock()._place = Some(place);
    }

    /// Sends a piece before all data that was not sent yet.
    pub(super) fn send_first(&self, piece: TunnelPiece) {
        let mut pipe = self.0.lock();
        pipe.first = Some(piece);
        wake(pipe.to_send.take());
    }

    /// Ends this direction after the written data.
    pub(super) fn end(&self) {
        let mut pipe = self.0.lock();
        pipe.is_ended = true;
        wake(pipe.to_send.take());
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        let mut pipe = self.0.lock();
        pipe.is_dropped = true;
        wake(pipe.to_send.take());
    }
}

impl Stream for Pieces {
    type Item = Result<TunnelPiece, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut pipe = self.0.lock();
        if let Some(first) = pipe.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if !pipe.data.is_empty() {
            let data = pipe.data.split().freeze();
            wake(pipe.to_write.take());
            return Poll::Ready(Some(Ok(data_piece(data))));
        }
        if pipe.is_ended && !pipe.end_is_sent {
            pipe.end_is_sent = true;
            return Poll::Ready(Some(Ok(end_piece())));
        }
        if pipe.is_dropped {
            return Poll::Ready(None);
        }
        pipe.to_send = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let mut pipe = self.0.lock();
        pipe.is_broken = true;
        wake(pipe.to_write.take());
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
