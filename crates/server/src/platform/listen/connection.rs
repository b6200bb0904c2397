//! The byte stream of a connection, which HTTP reads and writes. It ends when
//! its client is too slow.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::platform::listen::places::Place;
use crate::platform::listen::stream::Stream;

/// Maximum time from the first byte of a request to the end of its headers, and
/// from the start of a connection to its first byte.
const HEADERS: Duration = Duration::from_secs(10);
/// Maximum time without a request on a connection with a key. Clients with
/// connection pools usually close idle connections earlier.
const IDLE: Duration = Duration::from_secs(120);
/// Maximum time in which a client without a key may read nothing of a response.
const STALLED: Duration = Duration::from_secs(10);
/// Maximum time for a client that is still sending to read the last response.
const LEAVING: Duration = Duration::from_secs(2);
/// Maximum bytes that the client may send within [`LEAVING`].
const LEFT: usize = 256 << 20;

/// A stream with time limits. It releases its place when it is dropped.
pub(crate) struct Connection {
    stream: Stream,
    place: Arc<Place>,
    waiting: Waiting,
    /// Whether a part of a response is not flushed yet.
    is_unflushed: bool,
    /// The time limit of the current wait for the client.
    patience: Pin<Box<Sleep>>,
    /// The time limit while the client does not read a response; `None` while
    /// it reads.
    stalled: Option<Pin<Box<Sleep>>>,
    leaving: Option<Leaving>,
}

/// The end of a connection, after the last response.
struct Leaving {
    until: Pin<Box<Sleep>>,
    /// Number of bytes that may still be read and discarded.
    left: usize,
    /// Whether the sending side is closed.
    is_shut: bool,
}

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// A response of the server.
    Answer,
    /// The first byte of a request.
    Request,
    /// The end of a request's headers.
    Headers,
}

impl Connection {
    pub(crate) fn new(stream: Stream, place: Arc<Place>) -> Self {
        Self {
            stream,
            place,
            waiting: Waiting::Request,
            is_unflushed: false,
            patience: Box::pin(tokio::time::sleep(HEADERS)),
            stalled: None,
            leaving: None,
        }
    }

    /// Starts the wait for a request when no request is running. Returns
    /// whether the client has time left.
    fn has_time(&mut self, context: &mut Context<'_>) -> bool {
        if self.place.is_at_work() || self.is_unflushed {
            self.waiting = Waiting::Answer;
            return true;
        }
        if self.waiting == Waiting::Answer {
            self.wait_for(Waiting::Request);
        }
        self.patience.as_mut().poll(context).is_pending()
    }

    fn wait_for(&mut self, waiting: Waiting) {
        self.waiting = waiting;
        let time = match waiting == Waiting::Request && self.place.is_known() {
            true => IDLE,
            false => HEADERS,
        };
        self.patience.as_mut().reset(Instant::now() + time);
    }

    /// Records that a part of a response was written, or could not be written
    /// yet.
    fn wrote(&mut self, is_pending: bool, context: &mut Context<'_>) -> io::Result<()> {
        self.waiting = Waiting::Answer;
        self.is_unflushed = true;
        self.check_stall(is_pending, context)
    }

    /// Fails if a client without a key has not read a response for too long.
    fn check_stall(&mut self, is_pending: bool, context: &mut Context<'_>) -> io::Result<()> {
        if !is_pending || self.place.is_known() {
            self.stalled = None;
            return Ok(());
        }
        let begun = || Box::pin(tokio::time::sleep(STALLED));
        let stalled = self.stalled.get_or_insert_with(begun);
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.place.leave();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            if self.waiting == Waiting::Request && !self.place.is_at_work() {
                self.wait_for(Waiting::Headers);
            }
            return read;
        }
        match read.is_pending() && !self.has_time(context) {
            // Reports the end of the stream, as if the client had disconnected.
            true => Poll::Ready(Ok(())),
            false => read,
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written.is_pending(), context)?;
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check_stall(flushed.is_pending(), context)?;
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.is_unflushed = false;
            // The wait for the next request begins here, because hyper may not
            // read before the client sends. The end of the wait wakes hyper,
            // which then reads.
            let _ = self.has_time(context);
        }
        flushed
    }

    /// Closes the sending side, and then reads the bytes that the client still
    /// sends for a while: a close with unread bytes would lose the last
    /// response. After an upgrade, these bytes are for the next protocol.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // After the last response, only an upgraded connection is at work.
        if this.leaving.is_none() && this.place.is_at_work() {
            return Pin::new(&mut this.stream).poll_shutdown(context);
        }
        let begin = || Leaving {
            until: Box::pin(tokio::time::sleep(LEAVING)),
            left: LEFT,
            is_shut: false,
        };
        let Leaving {
            until,
            left,
            is_shut,
        } = this.leaving.get_or_insert_with(begin);
        let mut rest = [0; 8192];
        while *left > 0 && until.as_mut().poll(context).is_pending() {
            if !*is_shut {
                ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
                *is_shut = true;
            }
            let mut rest = ReadBuf::new(&mut rest);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut rest)) {
                Ok(()) if !rest.filled().is_empty() => {
                    *left = left.saturating_sub(rest.filled().len());
                }
                // The client is gone.
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.wrote(written.is_pending(), context)?;
        written
    }
}
