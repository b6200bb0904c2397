//! Tests of the proxy with real sockets.

mod counting;
mod faulting;
mod reading;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::Wire;

/// A message of the server that ends a round trip.
const READY: &[u8] = b"Z\0\0\0\x05I";
/// The packet that starts a connection.
const STARTUP: &[u8] = b"\0\0\0\x08\0\x03\0\0";

/// A server that sends every byte back, except that it answers a `Q` with
/// `READY` and a start-up packet with `Ok` and `READY`.
struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(client));
            }
        });
        Self { address, task }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut client: TcpStream) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = client.read(&mut buffer).await.unwrap_or_default();
        let answer = match &buffer[..count] {
            [] => return,
            [b'Q'] => READY.to_vec(),
            packet if packet == STARTUP => [b"R\0\0\0\x08\0\0\0\0".as_slice(), READY].concat(),
            other => other.to_vec(),
        };
        if client.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A client that has started up.
async fn client(wire: &Wire) -> TcpStream {
    let mut client = TcpStream::connect(wire.address()).await.unwrap();
    exchange(&mut client, STARTUP, 9 + READY.len()).await;
    client
}

/// Sends bytes and returns this number of bytes of the answer.
async fn exchange(client: &mut TcpStream, bytes: &[u8], length: usize) -> Vec<u8> {
    client.write_all(bytes).await.unwrap();
    let mut answer = vec![0; length];
    client.read_exact(&mut answer).await.unwrap();
    answer
}

/// Returns the error of a client that the proxy does not serve. The reset may
/// arrive before the client has finished to connect.
async fn refused(wire: &Wire) -> io::Error {
    match TcpStream::connect(wire.address()).await {
        Ok(mut client) => client.read(&mut [0]).await.unwrap_err(),
        Err(error) => error,
    }
}

/// Executes a query.
async fn query(client: &mut TcpStream) {
    assert_eq!(exchange(client, b"Q", READY.len()).await, READY);
}

/// Returns everything that arrives until the connection is closed.
async fn rest(client: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Some faults reset the connection, others only close it.
    let _ = client.read_to_end(&mut bytes).await;
    bytes
}

/// A time after which nothing can arrive any more. A test that is wrong about
/// this passes.
const SILENCE: Duration = Duration::from_millis(30);

/// Checks that nothing arrives and that the connection stays open.
async fn is_silent(client: &mut TcpStream) -> bool {
    let mut byte = [0];
    let read = tokio::time::timeout(SILENCE, client.read(&mut byte)).await;
    read.is_err()
}
