//! Readers: what the agent sent for one, until it is consumed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use elevo_agent_proto::MAX_CHUNKS_IN_FLIGHT;
use tokio::sync::Notify;

use crate::error::LinkError;
use crate::link::Link;
use crate::types::{Event, Exit, Stream};

/// Below this, data is copied: a slice of it would keep the whole buffer that it
/// was received in.
const COPY_BELOW: usize = 1024;

/// The agent sent what it may not send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// What one reader has been sent and has not consumed.
pub(crate) struct Queue {
    window: usize,
    state: Mutex<QueueState>,
    ready: Notify,
}

struct QueueState {
    events: VecDeque<Event>,
    bytes: usize,
    /// Where the next piece begins.
    next: u64,
    /// Nothing follows what is queued, and this is why.
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
            return Err(Violation("a gap that is none"));
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The output of a process, from some offset on. Dropping it ends the reading and
/// not the process.
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

    /// What comes next. Asking for it says that what came before has been dealt
    /// with, so that the process may write more. May be cancelled without loss.
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

    /// After all that [`Output::next`] has returned.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.consumed
    }

    /// Not for each piece: a quarter of what may be on its way is soon enough.
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
