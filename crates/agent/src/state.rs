//! The state of the agent: processes, their output, and the readers of the
//! output.
//!
//! One thread uses the state. The lock exists only because the types of the
//! connection must be `Send`, and is never contended.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::sync::Arc;
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};

use elevo_agent_proto::v1;
use parking_lot::{Mutex, MutexGuard};

use crate::outgoing::Outbox;
use crate::process::{Life, Process};
use crate::reaper::Reaper;
use crate::source::{Read, Source};

/// Maximum number of running commands.
pub(crate) const MAX_COMMANDS: usize = 64;

/// Maximum number of ended processes whose records are kept.
const MAX_FINISHED: usize = 200;

/// Maximum bytes of output of all processes together. Only unread output of
/// running processes may exceed it.
const MAX_HELD: u64 = 32 * 1024 * 1024;

/// Maximum bytes of one read.
const SCRATCH: usize = 128 * 1024;

const DEFAULT_TERMINALS: usize = 5;

/// Default limit of history, and of unread output, of one process.
const DEFAULT_LIMIT: u64 = 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Agent(Arc<Shared>);

struct Shared {
    reaper: Reaper,
    environment: Vec<(OsString, OsString)>,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) processes: BTreeMap<String, Process>,
    /// The ended processes, the oldest first.
    finished: VecDeque<String>,
    pub(crate) outbox: Outbox,
    /// Bytes in all buffers together.
    held: u64,
    scratch: Box<[u8]>,
    pub(crate) max_terminals: usize,
    pub(crate) limit: u64,
    pub(crate) shutting_down: bool,
}

impl Agent {
    pub(crate) fn new(reaper: Reaper, environment: Vec<(OsString, OsString)>) -> Self {
        let state = State {
            processes: BTreeMap::new(),
            finished: VecDeque::new(),
            outbox: Outbox::default(),
            held: 0,
            scratch: Box::default(),
            max_terminals: DEFAULT_TERMINALS,
            limit: DEFAULT_LIMIT,
            shutting_down: false,
        };
        Self(Arc::new(Shared {
            reaper,
            environment,
            state: Mutex::new(state),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    pub(crate) fn reaper(&self) -> &Reaper {
        &self.0.reaper
    }

    /// The environment of commands.
    pub(crate) fn environment(&self) -> &[(OsString, OsString)] {
        &self.0.environment
    }

    /// Answers a request, if it has an id.
    pub(crate) fn answer(
        &self,
        request_id: u64,
        result: Result<(), v1::Failure>,
        received_us: i64,
    ) {
        let mut state = self.lock();
        state.outbox.answer(request_id, result, received_us);
    }
}

impl State {
    /// Applies the limits that the server sent.
    pub(crate) fn configure(&mut self, config: &v1::ServerConfig) {
        if config.max_terminals > 0 {
            self.max_terminals = config.max_terminals as usize;
        }
        if let Ok(size @ 1..) = u64::try_from(config.max_output_buffer_size) {
            self.limit = size.div_ceil(2);
        }
    }

    pub(crate) fn running(&self, kind: v1::ProcessKind) -> usize {
        let running = |process: &&Process| process.is_running() && process.kind == kind;
        self.processes.values().filter(running).count()
    }

    pub(crate) fn add(&mut self, id: &str, process: Process) {
        self.processes.insert(id.to_owned(), process);
        self.outbox.changed(id);
    }

    /// Reads from a source into the buffer of its process. Also returns whether
    /// the process must block now.
    pub(crate) fn take_in(&mut self, id: &str, source: &mut Source) -> (Read, bool) {
        let read = source.read(scratch(&mut self.scratch));
        let Some(process) = self.processes.get_mut(id) else {
            return (Read::End, false);
        };
        if let Read::Some(count) = read {
            let before = process.buffer.held();
            let drop_oldest = process.drops_oldest();
            let data = &self.scratch[..count];
            process.buffer.push(source.stream, data, drop_oldest);
            self.held = self.held - before + process.buffer.held();
            self.outbox.wake_readers(&process.readers);
        }
        let full = process.is_full();
        if self.held > MAX_HELD {
            self.make_room();
        }
        (read, full)
    }

    /// Reads from a source and discards the data.
    pub(crate) fn discard(&mut self, source: &mut Source) -> Read {
        source.read(scratch(&mut self.scratch))
    }

    /// Records the end of a process.
    pub(crate) fn finish(&mut self, id: &str, mut exit: v1::ExitStatus) {
        let Some(process) = self.processes.get_mut(id) else {
            return;
        };
        exit.offset = process.buffer.end();
        process.exit = Some(exit);
        process.ended_at = Some(now_ms());
        process.input = None;
        process.terminal = None;
        process.buffer.finish();
        process.life.send_replace(Life::Ended);
        self.outbox.wake_readers(&process.readers);
        self.outbox.changed(id);
        self.finished.push_back(id.to_owned());
        self.forget_oldest();
    }

    pub(crate) fn acknowledge(&mut self, reader: u64, offset: u64) {
        let Some(id) = self.outbox.acknowledge(reader, offset) else {
            return;
        };
        if let Some(process) = self.processes.get_mut(&id) {
            let before = process.buffer.held();
            process.buffer.acknowledge(offset);
            self.held = self.held - before + process.buffer.held();
            if !process.is_full() {
                process.room.notify_one();
            }
        }
    }

    /// Removes a reader.
    pub(crate) fn end_reader(&mut self, reader: u64) {
        if let Some(id) = self.outbox.unsubscribe(reader)
            && let Some(process) = self.processes.get_mut(&id)
        {
            process.readers.retain(|other| *other != reader);
            if !process.is_full() {
                process.room.notify_one();
            }
        }
    }

    /// Deletes the oldest records of ended processes beyond [`MAX_FINISHED`],
    /// except records with readers.
    fn forget_oldest(&mut self) {
        while self.finished.len() > MAX_FINISHED {
            let unread = |id: &String| {
                let process = self.processes.get(id);
                process.is_none_or(|process| process.readers.is_empty())
            };
            let Some(index) = self.finished.iter().position(unread) else {
                return;
            };
            if let Some(id) = self.finished.remove(index) {
                if let Some(process) = self.processes.remove(&id) {
                    self.held -= process.buffer.held();
                }
                self.outbox.forgotten(&id);
            }
        }
    }

    /// Drops the least needed output until [`MAX_HELD`] is met: first the
    /// history of ended processes, then the history of running processes, then
    /// all output of ended processes without readers.
    fn make_room(&mut self) {
        let finished: Vec<String> = self.finished.iter().cloned().collect();
        let running = self.processes.iter().filter(|(_, p)| p.is_running());
        let running: Vec<String> = running.map(|(id, _)| id.clone()).collect();
        for id in finished.iter().chain(&running) {
            self.shrink(id, |process| process.buffer.drop_history());
        }
        for id in &finished {
            self.shrink(id, |process| {
                if process.readers.is_empty() {
                    process.buffer.drop_all();
                }
            });
        }
    }

    fn shrink(&mut self, id: &str, shrink: impl FnOnce(&mut Process)) {
        if self.held > MAX_HELD
            && let Some(process) = self.processes.get_mut(id)
        {
            let before = process.buffer.held();
            shrink(process);
            self.held = self.held - before + process.buffer.held();
        }
    }

    /// Sets the waker of the task that sends messages.
    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        self.outbox.set_waker(waker);
    }
}

/// Returns the buffer for reads. It is allocated at the first use, so that an
/// idle agent stays small.
fn scratch(scratch: &mut Box<[u8]>) -> &mut [u8] {
    if scratch.is_empty() {
        *scratch = vec![0; SCRATCH].into();
    }
    scratch
}

/// Returns microseconds since 1970.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

/// Returns milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
