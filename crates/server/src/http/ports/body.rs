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
use crate::app::access::principal::Principal;
use crate::app::ports::bounds::Permit;
use crate::app::stopping::{Phase, Work};
use crate::platform::clock;

/// Time after which the key of a response that is still sent is checked.
const LONG: Duration = Duration::from_secs(10);

/// The time of the last progress of a request body.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(clock::instant())))
    }

    fn advance(&self) {
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

/// The body of a request, which reports its progress.
pub(super) struct Upload {
    pub(super) body: Body,
    pub(super) progress: Progress,
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.progress.advance();
        Pin::new(&mut self.body).poll_frame(context)
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
    /// Completes when the response must end although the program sends more.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    _permit: Permit,
    _work: Work,
}

impl Download {
    pub(super) fn new(
        app: &Arc<App>,
        who: Principal,
        body: Incoming,
        permit: Permit,
        is_endless: bool,
    ) -> Self {
        let work = app.stopping.work();
        // A stream of events never ends, so it must not delay a shutdown.
        let phase = match is_endless {
            true => Phase::Draining,
            false => Phase::Cutting,
        };
        let app = app.clone();
        let cut = async move {
            let revoked = async {
                tokio::time::sleep(LONG).await;
                app.principals.invalid(&who).await
            };
            tokio::select! {
                () = app.stopping.entered(phase) => {}
                _ = revoked => {}
            }
        };
        Self {
            body,
            cut: Box::pin(cut),
            _permit: permit,
            _work: work,
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
