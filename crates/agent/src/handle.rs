//! Handles the requests of the server.

use elevo_agent_proto::v1::server_message::Payload;
use elevo_agent_proto::v1::{self, Failure, ServerMessage};

use crate::state::{Agent, State, now_us};
use crate::tunnel::Tunnels;
use crate::{command, failure, log, shutdown, terminal};

/// Handles one message, and answers it if it is a request.
pub(crate) fn handle(agent: &Agent, tunnels: &mut Tunnels, message: ServerMessage) {
    let (id, received) = (message.request_id, now_us());
    let result = match message.payload {
        Some(Payload::RunCommand(request)) => command::run(agent, request),
        Some(Payload::KillCommand(request)) => {
            command::signal(agent, &request.command_id, request.signal)
        }
        Some(Payload::CreatePty(request)) => terminal::open(agent, request),
        Some(Payload::ResizePty(request)) => terminal::resize(agent, &request),
        Some(Payload::KillPty(request)) => terminal::close(agent, &request.pty_id),
        Some(Payload::Subscribe(request)) => agent.lock().subscribe(&request),
        Some(Payload::Unsubscribe(request)) => {
            agent.lock().end_reader(request.subscription_id);
            Ok(())
        }
        Some(Payload::Acknowledge(request)) => {
            let mut state = agent.lock();
            state.acknowledge(request.subscription_id, request.offset);
            Ok(())
        }
        Some(Payload::Shutdown(request)) => {
            shutdown::begin(agent, request.grace_ms);
            Ok(())
        }
        // The feed answers this request when the input is written.
        Some(Payload::CommandInput(request)) => match command::input(agent, request, id) {
            Ok(()) => return,
            failed => failed,
        },
        Some(Payload::PtyInput(request)) => match terminal::input(agent, request, id) {
            Ok(()) => return,
            failed => failed,
        },
        // The tunnel answers this request when its target is open.
        Some(Payload::OpenTunnel(request)) => match tunnels.open(agent, request, (id, received)) {
            Ok(()) => return,
            failed => failed,
        },
        Some(Payload::RegisterResponse(response)) => {
            registered(agent, &response);
            Ok(())
        }
        None => Err(failure::invalid(
            "this version of the agent does not support the request",
        )),
    };
    if let Err(failure) = &result {
        log::debug(format_args!("rejected a request: {}", failure.message));
    }
    agent.answer(id, result, received);
}

fn registered(agent: &Agent, response: &v1::RegisterResponse) {
    if !response.success {
        log::warn(format_args!(
            "the server rejected this agent: {}",
            response.message
        ));
    }
    if let Some(config) = &response.config {
        agent.lock().configure(config);
    }
}

impl State {
    /// Starts a reader of a process.
    fn subscribe(&mut self, request: &v1::Subscribe) -> Result<(), Failure> {
        self.outbox.check_readers()?;
        let process = self.processes.get(&request.process_id);
        let process = process.ok_or_else(failure::no_such_process)?;
        let end = process.buffer.end();
        if request.offset > end {
            return Err(failure::invalid(format!(
                "offset {} is beyond the end of the output, which is {end}",
                request.offset
            )));
        }
        self.begin_reader(request);
        Ok(())
    }

    pub(crate) fn begin_reader(&mut self, request: &v1::Subscribe) {
        if let Some(process) = self.processes.get_mut(&request.process_id) {
            process.readers.push(request.subscription_id);
            self.outbox.subscribe(request);
        }
    }

    /// Removes the connection with all its readers, and resumes the processes
    /// that waited for a reader.
    pub(crate) fn disconnect(&mut self) {
        self.outbox.disconnect();
        for process in self.processes.values_mut() {
            process.readers.clear();
            if !process.is_full() {
                process.room.notify_one();
            }
        }
    }
}
