//! The thread of a proxy: its port and its connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use super::Upstream;
use super::connection::Connection;
use super::conversation::Protocol;
use super::faults::Fault;
use super::state::State;

/// Reports the end of a command.
pub(super) type Done = SyncSender<()>;

#[derive(Debug)]
pub(super) enum Command {
    /// Listens from now on, or no longer.
    Listen(bool, Done),
    /// Closes all connections.
    CutAll(Done),
}

/// Sends a command and waits until the proxy has executed it.
pub(super) fn call(proxy: &UnboundedSender<Command>, command: impl FnOnce(Done) -> Command) {
    let (done, executed) = sync_channel(1);
    let sent = proxy.send(command(done)).is_ok();
    let executed = sent && executed.recv().is_ok();
    assert!(executed, "the proxy has panicked");
}

/// A port of loopback, which stays taken while nothing listens there.
#[derive(Debug)]
pub(super) struct Ports {
    address: SocketAddr,
    /// A socket that has the port and does not listen.
    reserve: TcpSocket,
    listener: Option<TcpListener>,
}

impl Ports {
    pub(super) fn bind(address: SocketAddr) -> Self {
        let reserve = bound(address).expect("loopback has a free port");
        let address = reserve.local_addr().expect("the socket is bound");
        Self {
            address,
            reserve,
            listener: None,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    fn listen(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            // A port cannot be bound again while a socket listens there.
            let reserve = bound(self.address)?;
            let socket = std::mem::replace(&mut self.reserve, reserve);
            self.listener = Some(socket.listen(1024)?);
        }
        Ok(())
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        match &self.listener {
            Some(listener) => Ok(listener.accept().await?.0),
            None => std::future::pending().await,
        }
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Lets two sockets have one port as long as neither listens.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Runs a proxy until nothing can send it commands.
pub(super) fn run(
    mut ports: Ports,
    upstream: Upstream,
    protocol: Protocol,
    state: Arc<State>,
    mut commands: UnboundedReceiver<Command>,
) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the proxy has a runtime");
    runtime.block_on(async {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => execute(command, &mut ports, &mut connections).await,
                    None => return,
                },
                client = ports.accept() => {
                    let client = client.expect("the proxy can accept connections");
                    let faults = state.accepted();
                    if state.line().borrow().refuses || faults.contains(&Fault::Refuse) {
                        reset(client);
                        continue;
                    }
                    let connection = Connection::new(Arc::clone(&state), protocol, faults);
                    connections.spawn(connection.run(client, upstream.clone()));
                }
                Some(ended) = connections.join_next() => {
                    // Errors are those of the two sides, who see them too.
                    let _ = ended.expect("no connection has panicked");
                }
            }
        }
    });
    // A delay may be under way; there is nothing to wait for.
    runtime.shutdown_background();
}

async fn execute(command: Command, ports: &mut Ports, connections: &mut JoinSet<io::Result<()>>) {
    let done = match command {
        Command::Listen(true, done) => {
            ports.listen().expect("the proxy can listen again");
            done
        }
        Command::Listen(false, done) => {
            ports.listener = None;
            done
        }
        Command::CutAll(done) => {
            connections.shutdown().await;
            done
        }
    };
    // The caller waits for this and cannot have ended.
    let _ = done.send(());
}

/// Closes a connection so that the client's next call fails.
fn reset(client: TcpStream) {
    // If the client was faster and has gone, it needs no reset.
    let _ = client.set_zero_linger();
}
