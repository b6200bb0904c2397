//! A connection as HTTP sees it: it ends when its client keeps it waiting.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::places::Place;
use super::stream::Stream;

/// How long a client has from the first byte of a request to the end of its
/// headers, and a new client until that first byte.
const HEADERS: Duration = Duration::from_secs(10);
/// How long a connection with a key may be without a request. Clients that keep
/// connections close them earlier.
const IDLE: Duration = Duration::from_secs(120);
/// How long a client without a key may keep an answer waiting.
const STALLED: Duration = Duration::from_secs(10);
/// How long a client that is still sending has to read the answer.
const LEAVING: Duration = Duration::from_secs(2);
/// The bytes that it may send meanwhile.
const LEFT: usize = 256 << 20;

/// Gives back its place when it is dropped.
pub(super) struct Connection {
    stream: Stream,
    place: Arc<Place>,
    waiting: Waiting,
    /// Whether a part of an answer is not on its way yet.
    is_unflushed: bool,
    /// Ends the wait for the client, while there is one.
    patience: Pin<Box<Sleep>>,
    /// Set while the client does not take an answer.
    stalled: Option<Pin<Box<Sleep>>>,
    leaving: Option<Leaving>,
}

/// The end of a connection, after the last answer.
struct Leaving {
    until: Pin<Box<Sleep>>,
    /// The bytes that are still read and dropped.
    left: usize,
    /// Whether the sending side is closed.
    is_shut: bool,
}

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// An answer of the server.
    Answer,
    /// The first byte of a request.
    Request,
    /// The end of a request's headers.
    Headers,
}

impl Connection {
    pub(super) fn new(stream: Stream, place: Arc<Place>) -> Self {
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

    /// Brings the wait in line with the requests of the connection. Returns
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

    /// Notes that a part of an answer was written, or could not be.
    fn wrote(&mut self, is_pending: bool, context: &mut Context<'_>) -> io::Result<()> {
        self.waiting = Waiting::Answer;
        self.is_unflushed = true;
        self.check_stall(is_pending, context)
    }

    /// Fails if a client without a key has not taken an answer for too long.
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
            // As if the client had left.
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
            // The wait for the next request begins here: HTTP may not read before
            // the client sends. Its end wakes HTTP up, which reads then.
            let _ = self.has_time(context);
        }
        flushed
    }

    /// Says that nothing more will come, and then reads for a while what the
    /// client still sends: a connection that is closed with unread bytes loses
    /// its last answer.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
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
                // It has gone.
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
