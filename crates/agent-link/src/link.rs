//! One connected agent: its pending requests, its readers, and its last
//! reported state.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use elevo_agent_proto::v1::server_message::Payload;
use elevo_agent_proto::v1::{self, ServerMessage};
use elevo_agent_proto::{MAX_INPUT, MAX_READERS, MAX_TUNNELS};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedMutexGuard, Semaphore, mpsc, oneshot, watch};
use tracing::Instrument;

use crate::error::LinkError;
use crate::guard::Gate;
use crate::outgoing::Notes;
use crate::reader::{Output, Queue};
use crate::tunnel::Arrived;
use crate::types::{AgentCall, Process, ProcessKind, ProcessState, Usage};

/// Maximum number of pending requests.
const MAX_PENDING: usize = 4096;

/// A connected agent. When the connection is lost, every call fails with
/// [`LinkError::Disconnected`]; when the agent reconnects, it gets a new
/// `AgentLink`.
#[derive(Clone)]
pub struct AgentLink(pub(crate) Arc<Link>);

pub(crate) struct Link {
    pub(crate) sandbox: String,
    pub(crate) version: String,
    /// The listener that accepted the connection.
    pub(crate) server: u64,
    pub(crate) window: u32,
    observe: Option<fn(&AgentCall)>,
    requests: mpsc::Sender<ServerMessage>,
    notes: Arc<Notes>,
    gate: Gate,
    /// Limits the open tunnels.
    pub(crate) tunnels: Arc<Semaphore>,
    pub(crate) state: Mutex<LinkState>,
    pub(crate) gone: watch::Sender<bool>,
}

#[derive(Default)]
pub(crate) struct LinkState {
    closed: bool,
    last_id: u64,
    pub(crate) pending: HashMap<u64, Pending>,
    pub(crate) readers: HashMap<u64, Arc<Queue>>,
    pub(crate) processes: BTreeMap<String, Entry>,
    pub(crate) usage: Option<Usage>,
    /// The tunnels that were requested and that the agent has not opened.
    pub(crate) expected: HashMap<u64, oneshot::Sender<Arrived>>,
}

impl LinkState {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}

/// A process, and the lock that serializes its input.
pub(crate) struct Entry {
    pub(crate) process: Process,
    pub(crate) input: Arc<tokio::sync::Mutex<()>>,
}

/// A request that the agent has not answered. The request holds the lock on the
/// input, not the caller: otherwise a cancelled caller would release the lock,
/// and the next caller could fill the agent's queue.
pub(crate) struct Pending {
    pub(crate) answer: oneshot::Sender<Answered>,
    pub(crate) turn: Option<OwnedMutexGuard<()>>,
}

/// The answer to a request, with the times that the agent recorded.
pub(crate) struct Answered {
    pub(crate) result: Result<(), LinkError>,
    pub(crate) turn: Option<OwnedMutexGuard<()>>,
    pub(crate) received_us: i64,
    pub(crate) done_us: i64,
}

impl Link {
    pub(crate) fn new(
        sandbox: String,
        version: String,
        server: u64,
        (window, observe): (u32, Option<fn(&AgentCall)>),
        (requests, notes, gate): (mpsc::Sender<ServerMessage>, Arc<Notes>, Gate),
    ) -> Self {
        Self {
            sandbox,
            version,
            server,
            window,
            observe,
            requests,
            notes,
            gate,
            tunnels: Arc::new(Semaphore::new(MAX_TUNNELS)),
            state: Mutex::default(),
            gone: watch::Sender::new(false),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock()
    }

    /// Closes the connection. All pending requests and readers fail.
    pub(crate) fn close(&self) {
        let (readers, pending) = {
            let mut state = self.lock();
            // This flag is set under the lock that adds requests and readers,
            // so that none is added later and waits forever.
            state.closed = true;
            state.expected.clear();
            let readers: Vec<_> = state.readers.values().cloned().collect();
            (readers, std::mem::take(&mut state.pending))
        };
        drop(pending);
        for reader in readers {
            reader.disconnect();
        }
        self.notes.close();
        self.gate.close();
        self.gone.send_replace(true);
    }

    /// Whether this is the gate of the agent's connection.
    pub(crate) fn is_behind(&self, gate: &Gate) -> bool {
        self.gate.is(gate)
    }

    pub(crate) fn acknowledge(&self, reader: u64, offset: u64) {
        self.notes.acknowledge(reader, offset);
    }

    pub(crate) fn end_reader(&self, reader: u64) {
        self.lock().readers.remove(&reader);
        if !self.notes.end(reader) {
            self.close();
        }
    }

    pub(crate) fn begin_reader(self: &Arc<Self>, offset: u64) -> Result<Output, LinkError> {
        let queue = Arc::new(Queue::new(offset, self.window));
        let mut state = self.lock();
        if state.closed {
            return Err(LinkError::Disconnected);
        }
        if state.readers.len() >= MAX_READERS {
            return Err(LinkError::TooMany {
                what: "readers".to_owned(),
                limit: MAX_READERS as u64,
            });
        }
        state.last_id += 1;
        let id = state.last_id;
        state.readers.insert(id, Arc::clone(&queue));
        drop(state);
        Ok(Output::new(Arc::clone(self), id, queue, offset))
    }

    pub(crate) async fn request(&self, payload: Payload) -> Result<(), LinkError> {
        self.request_in_turn(payload, None).await.map(drop)
    }

    /// Sends a request and waits for its answer. Cancelling the caller does not
    /// undo a request that was sent.
    pub(crate) async fn request_in_turn(
        &self,
        payload: Payload,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Option<OwnedMutexGuard<()>>, LinkError> {
        let method = method_of(&payload);
        let span = tracing::info_span!(
            target: "elevo::trace",
            "agent call",
            otel.name = method,
            otel.kind = "client",
            rpc.system = "grpc",
            rpc.service = "workspace.agent.v1.AgentService",
            rpc.method = method,
            elevo.sandbox_id = self.sandbox,
        );
        self.ask(payload, method, turn).instrument(span).await
    }

    async fn ask(
        &self,
        payload: Payload,
        method: &'static str,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Option<OwnedMutexGuard<()>>, LinkError> {
        // The space is reserved before the request becomes pending. There is no
        // await between `add_pending` and `send`, so a cancelled caller leaves
        // no pending request that was never sent.
        let room = self.requests.reserve().await;
        let room = room.map_err(|_| LinkError::Disconnected)?;
        let (answer, answered) = oneshot::channel();
        let request_id = self.add_pending(Pending { answer, turn })?;
        room.send(ServerMessage {
            payload: Some(payload),
            request_id,
        });
        let answered = answered.await.map_err(|_| LinkError::Disconnected)?;
        if let Some(observe) = self.observe
            && answered.received_us > 0
        {
            observe(&AgentCall {
                sandbox: self.sandbox.clone(),
                method,
                received_us: answered.received_us,
                done_us: answered.done_us,
            });
        }
        answered.result.map(|()| answered.turn)
    }

    fn add_pending(&self, pending: Pending) -> Result<u64, LinkError> {
        let mut state = self.lock();
        if state.closed {
            return Err(LinkError::Disconnected);
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(LinkError::TooMany {
                what: "pending requests".to_owned(),
                limit: MAX_PENDING as u64,
            });
        }
        state.last_id += 1;
        let id = state.last_id;
        state.pending.insert(id, pending);
        Ok(id)
    }

    pub(crate) async fn turn(
        &self,
        process: &str,
    ) -> Result<(OwnedMutexGuard<()>, ProcessKind), LinkError> {
        // The lock on the state is released before the wait for the input: the
        // answer that ends the wait needs this lock.
        let (input, kind) = {
            let state = self.lock();
            let entry = state.processes.get(process);
            let entry = entry.ok_or(LinkError::NoSuchProcess)?;
            if entry.process.state == ProcessState::Exited {
                return Err(LinkError::Ended);
            }
            (Arc::clone(&entry.input), entry.process.kind)
        };
        Ok((input.lock_owned().await, kind))
    }

    pub(crate) async fn write(
        &self,
        process: &str,
        mut data: Bytes,
        eof: bool,
        (turn, kind): (OwnedMutexGuard<()>, ProcessKind),
    ) -> Result<(), LinkError> {
        let mut turn = Some(turn);
        loop {
            let piece = data.split_to(data.len().min(MAX_INPUT));
            let last = data.is_empty();
            let payload = input_payload(process, piece, eof && last, kind);
            turn = self.request_in_turn(payload, turn).await?;
            if last {
                return Ok(());
            }
        }
    }
}

fn input_payload(process: &str, data: Bytes, eof: bool, kind: ProcessKind) -> Payload {
    match kind {
        ProcessKind::Command => Payload::CommandInput(v1::CommandInput {
            command_id: process.to_owned(),
            data,
            eof,
        }),
        ProcessKind::Terminal => Payload::PtyInput(v1::PtyInput {
            pty_id: process.to_owned(),
            data,
            client: String::new(),
            seq: 0,
        }),
    }
}

/// Returns the name of a request in traces.
fn method_of(payload: &Payload) -> &'static str {
    match payload {
        Payload::RegisterResponse(_) => "register_response",
        Payload::RunCommand(_) => "run_command",
        Payload::KillCommand(_) => "kill_command",
        Payload::CreatePty(_) => "create_pty",
        Payload::PtyInput(_) => "pty_input",
        Payload::ResizePty(_) => "resize_pty",
        Payload::KillPty(_) => "kill_pty",
        Payload::CommandInput(_) => "command_input",
        Payload::Subscribe(_) => "subscribe",
        Payload::Unsubscribe(_) => "unsubscribe",
        Payload::Acknowledge(_) => "acknowledge",
        Payload::Shutdown(_) => "shutdown",
        Payload::OpenTunnel(_) => "open_tunnel",
    }
}
