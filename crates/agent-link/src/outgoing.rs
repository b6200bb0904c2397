//! Messages to the agent: requests and notes. A request waits for space in the
//! queue. A note about a reader cannot wait, so a newer acknowledgement
//! replaces an older one of the same reader.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use elevo_agent_proto::v1::server_message::Payload;
use elevo_agent_proto::v1::{Acknowledge, ServerMessage, Unsubscribe};
use futures::Stream;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;

/// Maximum number of ended readers that have not been reported to the agent.
const MAX_ENDED: usize = 4096;

/// Notes about readers that were not sent to the agent yet: consumed output and
/// ended readers.
#[derive(Default)]
pub(crate) struct Notes {
    waiting: Mutex<Waiting>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Waiting {
    consumed: BTreeMap<u64, u64>,
    ended: Vec<u64>,
    closed: bool,
}

impl Notes {
    /// Records that a reader has consumed everything before an offset.
    pub(crate) fn acknowledge(&self, reader: u64, offset: u64) {
        self.with(|waiting| {
            waiting.consumed.insert(reader, offset);
        });
    }

    /// Records that a reader has ended. Returns false if more than
    /// [`MAX_ENDED`] such notes wait: the agent then counts as dead.
    pub(crate) fn end(&self, reader: u64) -> bool {
        self.with(|waiting| {
            waiting.consumed.remove(&reader);
            waiting.ended.push(reader);
            waiting.ended.len() <= MAX_ENDED
        })
    }

    /// Ends the stream of messages.
    pub(crate) fn close(&self) {
        self.with(|waiting| waiting.closed = true);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = self.waiting.lock();
        let result = change(&mut waiting);
        drop(waiting);
        self.waker.wake();
        result
    }

    fn next(&self) -> Next {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Next::Closed;
        }
        if let Some(subscription_id) = waiting.ended.pop() {
            return Next::Unsubscribe(Unsubscribe { subscription_id });
        }
        match waiting.consumed.pop_first() {
            Some((subscription_id, offset)) => Next::Acknowledge(Acknowledge {
                subscription_id,
                offset,
            }),
            None => Next::Nothing,
        }
    }
}

enum Next {
    Unsubscribe(Unsubscribe),
    Acknowledge(Acknowledge),
    Nothing,
    Closed,
}

/// The messages to one agent, in order.
pub(crate) struct Outgoing {
    requests: mpsc::Receiver<ServerMessage>,
    notes: Arc<Notes>,
}

impl Outgoing {
    pub(crate) fn new(requests: mpsc::Receiver<ServerMessage>, notes: Arc<Notes>) -> Self {
        Self { requests, notes }
    }
}

impl Stream for Outgoing {
    type Item = Result<ServerMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.notes.waker.register(context.waker());
        let payload = match self.notes.next() {
            Next::Closed => return Poll::Ready(None),
            Next::Unsubscribe(note) => Payload::Unsubscribe(note),
            Next::Acknowledge(note) => Payload::Acknowledge(note),
            Next::Nothing => return self.requests.poll_recv(context).map(|next| next.map(Ok)),
        };
        Poll::Ready(Some(Ok(ServerMessage {
            payload: Some(payload),
            request_id: 0,
        })))
    }
}
