//! Writes input to a process, as fast as the process reads it.

use bytes::{Buf, Bytes};
use elevo_agent_proto::v1;
use rustix::io::Errno;
use tokio::sync::{mpsc, watch};

use crate::failure;
use crate::process::Life;
use crate::source::Fd;
use crate::state::Agent;

/// Maximum number of queued pieces for one process. The server sends one piece
/// at a time.
pub(crate) const WAITING: usize = 4;

/// A piece of input. The agent answers its request when the piece is written.
pub(crate) struct Piece {
    pub(crate) data: Bytes,
    pub(crate) eof: bool,
    pub(crate) request_id: u64,
}

/// Writes `first`, then each piece. After a failed write or the end of the
/// input, the agent answers further pieces with a failure.
pub(crate) async fn feed(
    agent: Agent,
    fd: Fd,
    first: Bytes,
    pieces: Option<mpsc::Receiver<Piece>>,
    mut life: watch::Receiver<Life>,
) {
    let mut open = write_all(&fd, first, &mut life).await.then_some(fd);
    let Some(mut pieces) = pieces else {
        return;
    };
    while let Some(piece) = pieces.recv().await {
        let written = match &open {
            Some(fd) => write_all(fd, piece.data, &mut life).await,
            None => false,
        };
        if !written || piece.eof {
            open = None;
        }
        let result = if written {
            Ok(())
        } else {
            Err(failure::ended())
        };
        agent.answer(piece.request_id, result, 0);
    }
}

/// Adds input to the queue of a process.
pub(crate) fn enqueue(agent: &Agent, id: &str, piece: Piece) -> Result<(), v1::Failure> {
    let state = agent.lock();
    let process = state.processes.get(id);
    let process = process.ok_or_else(failure::no_such_process)?;
    let input = process.input.as_ref().ok_or_else(failure::ended)?;
    input.try_send(piece).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => failure::too_many("pieces of input", WAITING),
        mpsc::error::TrySendError::Closed(_) => failure::ended(),
    })
}

/// Writes all data. Returns false if the process ended or closed its input
/// before.
async fn write_all(fd: &Fd, mut data: Bytes, life: &mut watch::Receiver<Life>) -> bool {
    while !data.is_empty() {
        match rustix::io::write(fd.get_ref(), &data) {
            Ok(count) => data.advance(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                not_writable(fd);
                let ended = life.wait_for(|life| *life == Life::Ended);
                tokio::select! {
                    ready = fd.writable() => drop(ready),
                    _ = ended => return false,
                }
            }
            Err(_) => return false,
        }
    }
    true
}

/// Marks a file as not writable until the system reports it as writable again.
fn not_writable(fd: &Fd) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    if let std::task::Poll::Ready(Ok(mut guard)) = fd.poll_write_ready(&mut context) {
        guard.clear_ready();
    }
}
