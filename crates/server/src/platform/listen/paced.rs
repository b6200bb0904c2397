//! A request body that must arrive at a minimum rate.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

/// Maximum total time that a client may be slower than [`RATE`].
const GRACE: Duration = Duration::from_secs(40);
/// Minimum bytes per second.
const RATE: u64 = 1024;

/// A body with a minimum rate. Only the time in which the server waits for the
/// client counts.
#[derive(Debug)]
pub(crate) struct Paced<B = Incoming> {
    inner: B,
    received: u64,
    waited: Duration,
    /// The start of the current wait, and its limit.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PacedError<E> {
    #[error("the body arrived too slowly: at least {RATE} bytes per second are expected")]
    TooSlow,
    #[error(transparent)]
    Inner(#[from] E),
}

impl<B> Paced<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self {
            inner,
            received: 0,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    /// Returns the time that the client has left.
    fn left(&self) -> Duration {
        let earned = Duration::from_millis(self.received.saturating_mul(1000) / RATE);
        // The minimum with `GRACE` prevents a client from sending fast first
        // and then being silent for long.
        (earned + GRACE).saturating_sub(self.waited).min(GRACE)
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = PacedError<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            let left = this.left();
            let begin = || (Instant::now(), Box::pin(tokio::time::sleep(left)));
            let (_, until) = this.waiting.get_or_insert_with(begin);
            ready!(until.as_mut().poll(context));
            return Poll::Ready(Some(Err(PacedError::TooSlow)));
        };
        if let Some((since, _)) = this.waiting.take() {
            this.waited += since.elapsed();
        }
        if let Some(Ok(frame)) = &frame {
            this.received += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame.map(|frame| Ok(frame?)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream::{self, StreamExt};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    /// Returns a body of pieces, given as seconds of delay and length.
    fn sent(
        pieces: Vec<(u64, usize)>,
    ) -> Paced<impl Body<Data = Bytes, Error = Infallible> + Unpin> {
        let pieces = stream::iter(pieces).then(|(seconds, length)| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(Frame::data(Bytes::from(vec![0; length])))
        });
        Paced::new(StreamBody::new(Box::pin(pieces)))
    }

    async fn length(
        body: Paced<impl Body<Data = Bytes, Error = Infallible> + Unpin>,
    ) -> Option<usize> {
        let collected = body.collect().await.ok()?;
        Some(collected.to_bytes().len())
    }

    #[tokio::test(start_paused = true)]
    async fn accepts_a_body_at_the_minimum_rate() {
        assert_eq!(length(sent(vec![(5, 6_000); 100])).await, Some(600_000));
        assert_eq!(length(sent(vec![(39, 1)])).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn rejects_a_body_that_stalls_or_is_too_slow() {
        assert_eq!(length(sent(vec![(0, 100 << 20), (50, 1)])).await, None);
        assert_eq!(length(sent(vec![(5, 1); 20])).await, None);
    }
}
