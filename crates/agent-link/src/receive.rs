//! Validates the messages of an agent before any part of them is stored.

use std::collections::btree_map;

use elevo_agent_proto::MAX_SHOWN_COMMAND;
use elevo_agent_proto::v1::agent_message::Payload;
use elevo_agent_proto::v1::{self, OutputType, pty_output};

use crate::error::LinkError;
use crate::link::{Answered, Entry, Link, LinkState};
use crate::reader::{Queue, Violation};
use crate::types::{Exit, Process, Stream, Usage};

/// Maximum number of processes of an agent; agents use far fewer.
pub(crate) const MAX_PROCESSES: usize = 1024;

/// Maximum length of a process id.
pub(crate) const MAX_ID: usize = 256;

/// Maximum bytes of the text of a failure.
const MAX_TEXT: usize = 4096;

impl Link {
    /// Processes one message.
    pub(crate) fn receive(&self, message: v1::AgentMessage) -> Result<(), Violation> {
        match message.payload {
            Some(Payload::CommandOutput(output)) => self.command_output(output),
            Some(Payload::PtyOutput(output)) => self.pty_output(output),
            Some(Payload::Gap(gap)) => {
                self.for_reader(gap.subscription_id, |queue| queue.gap(gap.from, gap.to))
            }
            Some(Payload::Answer(answer)) => {
                self.answer(answer);
                Ok(())
            }
            Some(Payload::Process(process)) => self.lock().put_process(process),
            Some(Payload::Heartbeat(heartbeat)) => {
                self.lock().heartbeat(&heartbeat);
                Ok(())
            }
            // A newer version of the agent may send messages that this server
            // does not know.
            Some(Payload::Register(_)) | None => Ok(()),
        }
    }

    fn command_output(&self, output: v1::CommandOutput) -> Result<(), Violation> {
        let stream = match output.r#type() {
            OutputType::Stdout => Stream::Stdout,
            OutputType::Stderr => Stream::Stderr,
            OutputType::Exit => {
                let exit = exit(output.exit, output.exit_code, output.offset);
                return self.for_reader(output.subscription_id, |queue| queue.exit(exit));
            }
            OutputType::Error | OutputType::Unspecified => return Ok(()),
        };
        self.for_reader(output.subscription_id, |queue| {
            queue.data(stream, output.offset, output.data)
        })
    }

    fn pty_output(&self, output: v1::PtyOutput) -> Result<(), Violation> {
        let v1::PtyOutput {
            subscription_id,
            offset,
            ..
        } = output;
        match output.payload {
            Some(pty_output::Payload::Data(data)) => self.for_reader(subscription_id, |queue| {
                queue.data(Stream::Terminal, offset, data)
            }),
            Some(pty_output::Payload::ExitCode(code)) => {
                let exit = exit(output.exit, code, offset);
                self.for_reader(subscription_id, |queue| queue.exit(exit))
            }
            Some(pty_output::Payload::Error(_)) | None => Ok(()),
        }
    }

    /// Passes a message to its reader. A message for an ended reader is
    /// ignored.
    fn for_reader(
        &self,
        reader: u64,
        deliver: impl FnOnce(&Queue) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let queue = self.lock().readers.get(&reader).cloned();
        queue.map_or(Ok(()), |queue| deliver(&queue))
    }

    fn answer(&self, answer: v1::Answer) {
        let pending = self.lock().pending.remove(&answer.request_id);
        if let Some(pending) = pending {
            let result = match answer.failure {
                None => Ok(()),
                Some(failure) => Err(LinkError::from(shortened(failure))),
            };
            // The caller may have been cancelled.
            let _ = pending.answer.send(Answered {
                result,
                turn: pending.turn,
                received_us: answer.received_us,
                done_us: answer.done_us,
            });
        }
    }
}

impl LinkState {
    /// Stores the agent's record of a process.
    pub(crate) fn put_process(&mut self, mut process: v1::Process) -> Result<(), Violation> {
        if process.process_id.len() > MAX_ID {
            return Err(Violation("the id of a process is too long"));
        }
        if process.forgotten {
            self.processes.remove(&process.process_id);
            return Ok(());
        }
        truncate(&mut process.command, MAX_SHOWN_COMMAND);
        let count = self.processes.len();
        match self.processes.entry(process.process_id.clone()) {
            btree_map::Entry::Occupied(mut entry) => {
                entry.get_mut().process = Process::from(process);
            }
            btree_map::Entry::Vacant(_) if count >= MAX_PROCESSES => {
                return Err(Violation("too many processes"));
            }
            btree_map::Entry::Vacant(entry) => {
                entry.insert(Entry {
                    process: Process::from(process),
                    input: Default::default(),
                });
            }
        }
        Ok(())
    }

    fn heartbeat(&mut self, heartbeat: &v1::Heartbeat) {
        if let Some(usage) = heartbeat.resource_usage {
            self.usage = Some(Usage {
                at_ms: heartbeat.timestamp,
                cpu_percent: usage.cpu_percent,
                memory_bytes: usage.memory_bytes,
                disk_bytes: usage.disk_bytes,
                processes: usage.processes,
            });
        }
        for end in &heartbeat.ends {
            if let Some(entry) = self.processes.get_mut(&end.process_id) {
                entry.process.end = entry.process.end.max(end.end);
            }
        }
    }
}

fn exit(exit: Option<v1::ExitStatus>, code: i32, offset: u64) -> Exit {
    exit.map_or(
        Exit {
            code: Some(code),
            signal: None,
            timed_out: false,
            offset,
        },
        Exit::from,
    )
}

fn shortened(mut failure: v1::Failure) -> v1::Failure {
    truncate(&mut failure.message, MAX_TEXT);
    truncate(&mut failure.what, MAX_TEXT);
    failure
}

fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
        text.shrink_to_fit();
    }
}
