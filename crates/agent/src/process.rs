//! A process that the server requested. The record of a process is kept for a
//! while after its end.

use std::sync::Arc;

use elevo_agent_proto::{MAX_SHOWN_COMMAND, v1};
use rustix::process::Pid;
use tokio::sync::{Notify, mpsc, watch};

use crate::buffer::Buffer;
use crate::feed::Piece;
use crate::received::Received;
use crate::source::Fd;

/// The handling of unread output that has reached the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The process blocks.
    Block,
    /// The oldest output is dropped.
    DropOldest,
    /// The process blocks while it has a reader; otherwise the oldest output is
    /// dropped. Terminals use this: a terminal without a client keeps running,
    /// as users expect.
    BlockWhileRead,
}

/// The state of a process, for the tasks that serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Running,
    Ended,
}

pub(crate) struct Process {
    pub(crate) kind: v1::ProcessKind,
    pub(crate) command: String,
    pub(crate) started_at: i64,
    pub(crate) ended_at: Option<i64>,
    pub(crate) pid: Pid,
    pub(crate) keep: Keep,
    pub(crate) buffer: Buffer,
    pub(crate) exit: Option<v1::ExitStatus>,
    pub(crate) readers: Vec<u64>,
    /// The end of the output that the last heartbeat reported.
    pub(crate) told_end: u64,
    /// Notified when the buffer has space again.
    pub(crate) room: Arc<Notify>,
    pub(crate) input: Option<mpsc::Sender<Piece>>,
    /// The numbered input that a terminal has received.
    pub(crate) received: Received,
    /// The master side of the terminal, if the process is a terminal.
    pub(crate) terminal: Option<Fd>,
    /// Notifies the tasks that serve the process. It is closed when the record
    /// of the process is deleted.
    pub(crate) life: watch::Sender<Life>,
}

impl Process {
    pub(crate) fn is_running(&self) -> bool {
        self.exit.is_none()
    }

    /// Whether the process must block, because its unread output has reached
    /// the limit.
    pub(crate) fn is_full(&self) -> bool {
        !self.drops_oldest() && self.buffer.is_full()
    }

    pub(crate) fn drops_oldest(&self) -> bool {
        match self.keep {
            Keep::Block => false,
            Keep::DropOldest => true,
            Keep::BlockWhileRead => self.readers.is_empty(),
        }
    }

    pub(crate) fn describe(&self, id: &str) -> v1::Process {
        v1::Process {
            process_id: id.to_owned(),
            kind: self.kind.into(),
            command: self.command.clone(),
            started_at: self.started_at,
            start: self.buffer.start(),
            end: self.buffer.end(),
            exit: self.exit,
            forgotten: false,
            pid: self.pid.as_raw_nonzero().get(),
            background: self.keep == Keep::DropOldest,
            ended_at: self.ended_at.unwrap_or_default(),
        }
    }
}

/// Returns the beginning of a command, for display.
pub(crate) fn shown(command: &str) -> String {
    let end = command.floor_char_boundary(MAX_SHOWN_COMMAND);
    command[..end].to_owned()
}
