//! Readers: each queues output from the agent until the server consumes it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use elevo_agent_proto::MAX_CHUNKS_IN_FLIGHT;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::error::LinkError;
use crate::link::Link;
use crate::types::{Event, Exit, Stream};

/// Size below which data is copied: a small slice would keep the whole receive
/// buffer in memory.
const COPY_BELOW: usize = 1024;

/// A violation of the protocol by the agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// Events for one reader that were received but not consumed yet.
pub(crate) struct Queue {
    window: usize,
    state: Mutex<QueueState>,
    ready: Notify,
}

struct QueueState {
    events: VecDeque<Event>,
    bytes: usize,
    /// The offset of the next piece.
    next: u64,
    /// Why no further event follows after the events in the queue; `None` while
    /// events may follow.
    end: Option<LinkError>,
}

impl Queue {
    pub(crate) fn new(offset: u64, window: u32) -> Self {
        Self {
            window: window as usize,
            state: Mutex::new(QueueState {
                events: VecDeque::new(),
                bytes: 0,
                next: offset,
                end: None,
            }),
            ready: Notify::new(),
        }
    }

    pub(crate) fn data(&self, stream: Stream, offset: u64, data: Bytes) -> Result<(), Violation> {
        let mut state = self.open()?;
        if offset != state.next {
            return Err(Violation("output out of order"));
        }
        let next = offset.checked_add(data.len() as u64);
        let next = next.ok_or(Violation("output beyond the last offset"))?;
        state.bytes += data.len();
        if state.bytes > self.window || state.events.len() >= MAX_CHUNKS_IN_FLIGHT {
            return Err(Violation("more output than a reader's window"));
        }
        state.next = next;
        let data = match data.len() {
            ..COPY_BELOW => Bytes::copy_from_slice(&data),
            _ => data,
        };
        state.events.push_back(Event::Data {
            stream,
            offset,
            data,
        });
        self.ready.notify_one();
        Ok(())
    }

    pub(crate) fn gap(&self, from: u64, to: u64) -> Result<(), Violation> {
        let mut state = self.open()?;
        if from != state.next || to <= from || state.events.len() >= MAX_CHUNKS_IN_FLIGHT {
            return Err(Violation("an invalid gap"));
        }
        state.next = to;
        state.events.push_back(Event::Gap { from, to });
        self.ready.notify_one();
        Ok(())
    }

    pub(crate) fn exit(&self, exit: Exit) -> Result<(), Violation> {
        let mut state = self.open()?;
        state.events.push_back(Event::Exit(exit));
        state.end = Some(LinkError::Ended);
        self.ready.notify_one();
        Ok(())
    }

    pub(crate) fn disconnect(&self) {
        let mut state = self.lock();
        state.end.get_or_insert(LinkError::Disconnected);
        self.ready.notify_one();
    }

    async fn take(&self) -> Result<Event, LinkError> {
        loop {
            if let Some(result) = self.try_take() {
                return result;
            }
            self.ready.notified().await;
        }
    }

    fn try_take(&self) -> Option<Result<Event, LinkError>> {
        let mut state = self.lock();
        match state.events.pop_front() {
            Some(event) => {
                if let Event::Data { data, .. } = &event {
                    state.bytes -= data.len();
                }
                Some(Ok(event))
            }
            None => state.end.clone().map(Err),
        }
    }

    fn open(&self) -> Result<MutexGuard<'_, QueueState>, Violation> {
        let state = self.lock();
        match state.end {
            None | Some(LinkError::Disconnected) => Ok(state),
            Some(_) => Err(Violation("output after the end")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

/// The output of a process from an offset on. Dropping this value ends the
/// subscription, not the process.
pub struct Output {
    link: Arc<Link>,
    reader: u64,
    queue: Arc<Queue>,
    consumed: u64,
    acknowledged: u64,
    events_since: usize,
}

impl Output {
    pub(crate) fn new(link: Arc<Link>, reader: u64, queue: Arc<Queue>, offset: u64) -> Self {
        Self {
            link,
            reader,
            queue,
            consumed: offset,
            acknowledged: offset,
            events_since: 0,
        }
    }

    pub(crate) fn reader(&self) -> u64 {
        self.reader
    }

    /// Returns the next event. The call acknowledges earlier events, so that
    /// the process may write more. The method is cancel safe.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ended`] after [`Event::Exit`]; [`LinkError::Disconnected`] if
    /// the connection is lost: attach again at [`Output::offset`].
    pub async fn next(&mut self) -> Result<Event, LinkError> {
        self.acknowledge();
        let event = self.queue.take().await?;
        match &event {
            Event::Data { offset, data, .. } => self.consumed = offset + data.len() as u64,
            Event::Gap { to, .. } => self.consumed = *to,
            Event::Exit(_) => {}
        }
        self.events_since += 1;
        Ok(event)
    }

    /// The offset after all events that [`Output::next`] has returned.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.consumed
    }

    /// Acknowledges consumed output after each quarter of the window, not after
    /// each piece.
    fn acknowledge(&mut self) {
        let bytes = self.consumed - self.acknowledged;
        if bytes >= self.queue.window as u64 / 4 || self.events_since >= MAX_CHUNKS_IN_FLIGHT / 4 {
            self.link.acknowledge(self.reader, self.consumed);
            self.acknowledged = self.consumed;
            self.events_since = 0;
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.link.end_reader(self.reader);
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("reader", &self.reader)
            .field("offset", &self.consumed)
            .finish_non_exhaustive()
    }
}
