//! Bodies that are streamed between a client and a program.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

use crate::app::App;
use crate::app::ports::bounds::Permit;
use crate::app::stopping::{Phase, Work};
use crate::http::ports::credentials::Admitted;
use crate::platform::clock;

/// Time after which the key of a body that is still sent is checked.
const LONG: Duration = Duration::from_secs(10);

/// Counts a request as running until both of its bodies are dropped.
pub(super) type Running = Arc<(Permit, Work)>;

/// Completes when a body must end although its sender sends more.
type Cut = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits until the server stops, the key becomes invalid, or the link expires.
async fn cut(app: Arc<App>, admitted: Admitted, phase: Phase) {
    let revoked = async {
        tokio::time::sleep(LONG).await;
        app.principals.invalid(&admitted.who).await
    };
    tokio::select! {
        () = app.stopping.entered(phase) => {}
        _ = revoked => {}
        () = admitted.expired() => {}
    }
}

/// The time of the last progress of a request body or of a connection.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(clock::instant())))
    }

    pub(super) fn advance(&self) {
        *self.0.lock() = clock::instant();
    }

    /// Waits until there was no progress for some time.
    pub(super) async fn stalled(&self, patience: Duration) {
        loop {
            let elapsed = self.0.lock().elapsed();
            if elapsed >= patience {
                return;
            }
            tokio::time::sleep(patience - elapsed).await;
        }
    }
}

/// The body of a request, which reports its progress. It may outlast the
/// response.
pub(super) struct Upload {
    body: Body,
    progress: Progress,
    cut: Cut,
    _running: Running,
}

impl Upload {
    pub(super) fn new(
        app: &Arc<App>,
        admitted: Admitted,
        body: Body,
        progress: Progress,
        running: Running,
    ) -> Self {
        Self {
            body,
            progress,
            cut: Box::pin(cut(app.clone(), admitted, Phase::Cutting)),
            _running: running,
        }
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.cut.as_mut().poll(context).is_ready() {
            let message = "the request was cut off by the server";
            return Poll::Ready(Some(Err(axum::Error::new(message))));
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(Some(Ok(_)))) {
            self.progress.advance();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a program's response. The request counts as running until it is
/// dropped.
pub(super) struct Download {
    body: Incoming,
    cut: Cut,
    _running: Running,
}

impl Download {
    pub(super) fn new(
        app: &Arc<App>,
        admitted: Admitted,
        body: Incoming,
        running: Running,
        is_endless: bool,
    ) -> Self {
        // A stream of events never ends, so it must not delay a shutdown.
        let phase = match is_endless {
            true => Phase::Draining,
            false => Phase::Cutting,
        };
        Self {
            body,
            cut: Box::pin(cut(app.clone(), admitted, phase)),
            _running: running,
        }
    }
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.cut.as_mut().poll(context).is_ready() {
            let message = "the response was cut off by the server";
            return Poll::Ready(Some(Err(io::Error::other(message))));
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
