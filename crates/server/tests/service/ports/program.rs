//! A program that listens on a port. Simulated sandboxes run on the host, so
//! that the test itself can be the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A program that responds to each request with bytes.
pub(crate) struct Program {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Program {
    /// Starts a program that responds with the result of a function. An empty
    /// response closes the connection.
    pub(crate) async fn start(
        respond: impl Fn(&str) -> Vec<u8> + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::start_that(respond, false).await
    }

    /// Starts a program that closes its connections after one response, although
    /// the response does not say so.
    pub(crate) async fn closing(response: Vec<u8>) -> Self {
        Self::start_that(move |_| response.clone(), true).await
    }

    async fn start_that(
        respond: impl Fn(&str) -> Vec<u8> + Clone + Send + Sync + 'static,
        closes: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (received, connections) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let (kept, counted) = (Arc::clone(&received), connections.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, respond.clone(), Arc::clone(&kept), closes));
            }
        });
        Self {
            port,
            received,
            connections,
            task,
        }
    }

    /// Starts a program whose responses contain everything that it received.
    pub(crate) async fn echo() -> Self {
        Self::start(|request| answer("content-type: text/plain\r\n", request)).await
    }

    /// Starts a program that always sends the same bytes.
    pub(crate) async fn fixed(response: &str) -> Self {
        let response = response.as_bytes().to_vec();
        Self::start(move |_| response.clone()).await
    }

    /// Returns the requests that the program received, with their bodies.
    pub(crate) fn received(&self) -> Vec<String> {
        self.received.lock().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Returns a response with status 200, these header lines and this body.
pub(crate) fn answer(headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

async fn serve(
    mut stream: TcpStream,
    respond: impl Fn(&str) -> Vec<u8>,
    received: Arc<Mutex<Vec<String>>>,
    closes: bool,
) {
    let mut bytes = Vec::new();
    loop {
        let Some(end) = complete(&bytes) else {
            match stream.read_buf(&mut bytes).await {
                Ok(1..) => continue,
                _ => return,
            }
        };
        let rest = bytes.split_off(end);
        let request = String::from_utf8_lossy(&bytes).into_owned();
        bytes = rest;
        let response = respond(&request);
        received.lock().push(request);
        if response.is_empty() || stream.write_all(&response).await.is_err() || closes {
            return;
        }
    }
}

/// Returns the length of the first request, if it is complete.
fn complete(bytes: &[u8]) -> Option<usize> {
    let find = |from: usize, part: &[u8]| {
        let found = bytes[from..]
            .windows(part.len())
            .position(|one| one == part);
        found.map(|at| from + at + part.len())
    };
    let head = find(0, b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    if text.contains("transfer-encoding: chunked") {
        return find(head - 2, b"\r\n0\r\n\r\n");
    }
    let length = text.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
    let end = head + length.unwrap_or_default();
    (bytes.len() >= end).then_some(end)
}
