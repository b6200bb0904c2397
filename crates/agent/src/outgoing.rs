//! Messages to the server. Where possible, a message is built only when the
//! connection can send it: until then, output stays in its buffer.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use elevo_agent_proto::v1::agent_message::Payload;
use elevo_agent_proto::v1::{self, AgentMessage, OutputType, pty_output};
use elevo_agent_proto::{MAX_CHUNK, MAX_CHUNKS_IN_FLIGHT, MAX_READERS};
use tokio_stream::Stream as MessageStream;

use crate::buffer::Stream;
use crate::failure;
use crate::process::Process;
use crate::state::{Agent, State, now_ms, now_us};

/// A reader of the output of a process.
struct Reader {
    process: String,
    window: u64,
    /// The end offsets of the pieces that were sent but not acknowledged.
    in_flight: VecDeque<u64>,
    acknowledged: u64,
    next: u64,
    queued: bool,
}

impl Reader {
    /// Returns the maximum number of bytes that may be sent now.
    fn room(&self) -> usize {
        if self.in_flight.len() >= MAX_CHUNKS_IN_FLIGHT {
            return 0;
        }
        let room = self.window.saturating_sub(self.next - self.acknowledged);
        usize::try_from(room).map_or(MAX_CHUNK, |room| room.min(MAX_CHUNK))
    }

    fn sent(&mut self, next: u64) {
        self.next = next;
        self.in_flight.push_back(next);
    }
}

/// The pending messages of one connection.
#[derive(Default)]
pub(crate) struct Outbox {
    /// The number of the connection; 0 if there is none.
    connection: u64,
    last_connection: u64,
    /// Answers to requests and changes of processes, in order.
    messages: VecDeque<Message>,
    heartbeat: Option<v1::Heartbeat>,
    readers: BTreeMap<u64, Reader>,
    /// Ids of the readers that may have output to send.
    ready: VecDeque<u64>,
    waker: Option<Waker>,
}

enum Message {
    Ready(Box<Payload>),
    /// The id of a changed process. The message describes the process as it is
    /// when the message is sent.
    Process(String),
}

impl Outbox {
    /// Starts a new connection, and removes the messages and readers of the old
    /// connection.
    pub(crate) fn connect(&mut self, register: v1::RegisterRequest) -> u64 {
        self.disconnect();
        self.last_connection += 1;
        self.connection = self.last_connection;
        self.queue(Payload::Register(register));
        self.connection
    }

    /// Removes all pending messages and readers.
    pub(crate) fn disconnect(&mut self) {
        self.connection = 0;
        self.messages.clear();
        self.heartbeat = None;
        self.readers.clear();
        self.ready.clear();
        self.wake();
    }

    /// Queues an answer to a request, unless its id is 0. `received_us` is the
    /// time of the request; 0 if it is unknown.
    pub(crate) fn answer(
        &mut self,
        request_id: u64,
        result: Result<(), v1::Failure>,
        received_us: i64,
    ) {
        if request_id != 0 {
            self.queue(Payload::Answer(v1::Answer {
                request_id,
                failure: result.err(),
                received_us,
                done_us: now_us(),
            }));
        }
    }

    pub(crate) fn changed(&mut self, process: &str) {
        if self.connection != 0 {
            self.messages
                .push_back(Message::Process(process.to_owned()));
            self.wake();
        }
    }

    pub(crate) fn forgotten(&mut self, process: &str) {
        self.queue(Payload::Process(v1::Process {
            process_id: process.to_owned(),
            forgotten: true,
            ..v1::Process::default()
        }));
    }

    /// Queues a heartbeat. It replaces an earlier heartbeat that was not sent
    /// yet.
    pub(crate) fn beat(&mut self, heartbeat: v1::Heartbeat) {
        self.heartbeat = Some(heartbeat);
        self.wake();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.ready.is_empty()
    }

    fn queue(&mut self, payload: Payload) {
        if self.connection != 0 {
            self.messages.push_back(Message::Ready(Box::new(payload)));
            self.wake();
        }
    }

    /// Fails if the maximum number of readers is reached.
    pub(crate) fn check_readers(&self) -> Result<(), v1::Failure> {
        match self.readers.len() {
            ..MAX_READERS => Ok(()),
            _ => Err(failure::too_many("readers", MAX_READERS)),
        }
    }

    pub(crate) fn subscribe(&mut self, request: &v1::Subscribe) {
        let reader = Reader {
            process: request.process_id.clone(),
            window: request.window.max(1).into(),
            in_flight: VecDeque::new(),
            acknowledged: request.offset,
            next: request.offset,
            queued: false,
        };
        self.readers.insert(request.subscription_id, reader);
        self.wake_readers(&[request.subscription_id]);
    }

    /// Removes a reader. Returns the id of its process.
    pub(crate) fn unsubscribe(&mut self, reader: u64) -> Option<String> {
        self.readers.remove(&reader).map(|reader| reader.process)
    }

    /// Records that a reader has consumed everything before an offset. Returns
    /// the id of its process.
    pub(crate) fn acknowledge(&mut self, id: u64, offset: u64) -> Option<String> {
        let reader = self.readers.get_mut(&id)?;
        reader.acknowledged = reader.acknowledged.max(offset.min(reader.next));
        let consumed = |end: &u64| *end <= reader.acknowledged;
        let count = reader.in_flight.partition_point(consumed);
        reader.in_flight.drain(..count);
        let process = reader.process.clone();
        self.wake_readers(&[id]);
        Some(process)
    }

    /// Schedules readers that may have output to send.
    pub(crate) fn wake_readers(&mut self, readers: &[u64]) {
        for id in readers {
            if let Some(reader) = self.readers.get_mut(id)
                && !reader.queued
            {
                reader.queued = true;
                self.ready.push_back(*id);
            }
        }
        if !readers.is_empty() {
            self.wake();
        }
    }

    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl State {
    /// Returns the next message. Readers take turns.
    fn next_payload(&mut self) -> Option<Payload> {
        while let Some(message) = self.outbox.messages.pop_front() {
            match message {
                Message::Ready(payload) => return Some(*payload),
                Message::Process(id) => {
                    if let Some(process) = self.processes.get(&id) {
                        return Some(Payload::Process(process.describe(&id)));
                    }
                }
            }
        }
        if let Some(heartbeat) = self.outbox.heartbeat.take() {
            return Some(Payload::Heartbeat(heartbeat));
        }
        while let Some(id) = self.outbox.ready.pop_front() {
            if let Some(payload) = self.next_for_reader(id) {
                return Some(payload);
            }
        }
        None
    }

    fn next_for_reader(&mut self, id: u64) -> Option<Payload> {
        let reader = self.outbox.readers.get_mut(&id)?;
        reader.queued = false;
        let process = self.processes.get(&reader.process)?;
        let payload = match next_output(id, reader, process) {
            Some(payload) => payload,
            None => {
                let at_end = reader.next == process.buffer.end();
                let exit = process.exit.filter(|_| at_end)?;
                let payload = exit_payload(id, &reader.process, process.kind, exit);
                self.end_reader(id);
                return Some(payload);
            }
        };
        self.outbox.wake_readers(&[id]);
        Some(payload)
    }
}

/// Returns the next piece of output for a reader, if the reader's window has
/// space.
fn next_output(id: u64, reader: &mut Reader, process: &Process) -> Option<Payload> {
    let room = reader.room();
    if room == 0 {
        return None;
    }
    let start = process.buffer.start();
    if reader.next < start {
        let from = reader.next;
        reader.sent(start);
        // Missing output does not count towards the window.
        reader.acknowledged = reader.acknowledged.max(start);
        return Some(Payload::Gap(v1::Gap {
            subscription_id: id,
            process_id: reader.process.clone(),
            from,
            to: start,
        }));
    }
    let (stream, data) = process.buffer.read(reader.next, room)?;
    let offset = reader.next;
    reader.sent(offset + data.len() as u64);
    let kind = match stream {
        Stream::Stdout => OutputType::Stdout,
        Stream::Stderr => OutputType::Stderr,
        Stream::Terminal => {
            return Some(Payload::PtyOutput(v1::PtyOutput {
                pty_id: reader.process.clone(),
                payload: Some(pty_output::Payload::Data(data)),
                subscription_id: id,
                offset,
                exit: None,
            }));
        }
    };
    Some(Payload::CommandOutput(v1::CommandOutput {
        command_id: reader.process.clone(),
        r#type: kind.into(),
        data,
        subscription_id: id,
        offset,
        ..v1::CommandOutput::default()
    }))
}

fn exit_payload(
    subscription_id: u64,
    id: &str,
    kind: v1::ProcessKind,
    exit: v1::ExitStatus,
) -> Payload {
    let code = exit.signal.map_or(exit.code, |signal| Some(128 + signal));
    let code = code.unwrap_or(-1);
    match kind {
        v1::ProcessKind::Terminal => Payload::PtyOutput(v1::PtyOutput {
            pty_id: id.to_owned(),
            payload: Some(pty_output::Payload::ExitCode(code)),
            subscription_id,
            offset: exit.offset,
            exit: Some(exit),
        }),
        v1::ProcessKind::Command | v1::ProcessKind::Unspecified => {
            Payload::CommandOutput(v1::CommandOutput {
                command_id: id.to_owned(),
                r#type: OutputType::Exit.into(),
                exit_code: code,
                timestamp: now_ms(),
                subscription_id,
                offset: exit.offset,
                exit: Some(exit),
                ..v1::CommandOutput::default()
            })
        }
    }
}

/// The stream of messages of one connection. It ends when a newer connection
/// replaces this one.
pub(crate) struct Outgoing {
    pub(crate) agent: Agent,
    pub(crate) sandbox: String,
    pub(crate) connection: u64,
}

impl MessageStream for Outgoing {
    type Item = AgentMessage;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentMessage>> {
        let mut state = self.agent.lock();
        if state.outbox.connection != self.connection {
            return Poll::Ready(None);
        }
        match state.next_payload() {
            Some(payload) => Poll::Ready(Some(AgentMessage {
                sandbox_id: self.sandbox.clone(),
                payload: Some(payload),
            })),
            None => {
                state.set_waker(context.waker());
                Poll::Pending
            }
        }
    }
}
