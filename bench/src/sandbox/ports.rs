//! A server behind a port of a sandbox: requests through the proxy, next to the same requests inside
//! the sandbox's network namespace, and a large response next to streamed output of a command.
//!
//! The server is a thread of this program whose socket is in the sandbox's network namespace. The
//! client is the same plain code for both ways.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::{Bench, stream};
use crate::server::KEY;

const PORT: u16 = 8080;

/// Size of the pieces that the server behind the port writes.
const PIECE: usize = 64 << 10;

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let size = bench.count(10) * (1 << 30) / 10;
    let server = &bench.server;
    let id = bench.runtime.block_on(server.create())?;
    let pid = server.agent_pid(&id)?;
    let listener = within(pid, || Ok(TcpListener::bind(("127.0.0.1", PORT))?))?;
    std::thread::spawn(move || serve(&listener, size));

    let prefix = format!("/api/v1/sandboxes/{id}/ports/{PORT}");
    let mut direct = Client::new(
        within(pid, || Ok(TcpStream::connect(("127.0.0.1", PORT))?))?,
        "",
    );
    let mut proxied = Client::new(TcpStream::connect(server.address())?, &prefix);
    let mut more = Samples::new();
    for round in 0..bench.count(2000) + 20 {
        let (inside, outside) = (direct.get("/small")?, proxied.get("/small")?);
        // The first requests open connections.
        if round >= 20 {
            more.push(outside - inside);
        }
    }
    let (mut large, mut output) = (Samples::new(), Samples::new());
    let printing = stream::Printing::prepare(bench, &id, size)?;
    for round in 0..4 {
        let took = proxied.get("/large")?;
        let began = Instant::now();
        printing.read(bench, || Ok(()))?;
        if round > 0 {
            let scale = (1 << 30) as f64 / size as f64;
            large.push(took * scale);
            output.push(began.elapsed().as_secs_f64() * scale);
        }
    }
    bench.runtime.block_on(server.delete(&[id]))?;
    Ok(vec![
        Row {
            name: "a request through the proxy: more than inside the namespace".into(),
            unit: Unit::Milliseconds,
            ours: more.figure(),
            peer: None,
            bar: Some(Bar::AtMost(1.0)),
        },
        Row {
            name: "1 GiB from a server behind a port".into(),
            unit: Unit::Seconds,
            ours: large.figure(),
            peer: Some(("streamed output", output.figure())),
            bar: Some(Bar::AtMostTimes(1.0 / 0.6)),
        },
    ])
}

/// Runs `action` in the network namespace of a process.
fn within<T: Send>(pid: u32, action: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        // A namespace belongs to a thread, which ends with this call.
        let entered = scope.spawn(|| {
            let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            action()
        });
        match entered.join() {
            Ok(done) => done,
            Err(_) => bail!("a thread has panicked"),
        }
    })
}

/// Responds to requests on all connections. The response is `size` bytes for `/large`, or else 2.
fn serve(listener: &TcpListener, size: usize) {
    for connection in listener.incoming().flatten() {
        std::thread::spawn(move || respond(&connection, size));
    }
}

fn respond(connection: &TcpStream, size: usize) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    let piece = vec![b'x'; PIECE];
    loop {
        let head = head(&mut reader)?;
        let length = if head.contains("/large") { size } else { 2 };
        let mut writer = connection;
        write!(
            writer,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
        )?;
        let mut left = length;
        while left > 0 {
            let part = &piece[..left.min(PIECE)];
            writer.write_all(part)?;
            left -= part.len();
        }
    }
}

/// Reads the lines of a request or response before its body.
fn head(reader: &mut impl BufRead) -> Result<String> {
    let mut head = String::new();
    loop {
        let length = reader.read_line(&mut head)?;
        ensure!(length > 0, "the connection was closed after: {head}");
        if length == 2 {
            return Ok(head);
        }
    }
}

/// A client with one connection.
struct Client {
    reader: BufReader<TcpStream>,
    prefix: String,
}

impl Client {
    fn new(connection: TcpStream, prefix: &str) -> Self {
        let _ = connection.set_nodelay(true);
        Self {
            reader: BufReader::with_capacity(PIECE, connection),
            prefix: prefix.into(),
        }
    }

    /// Requests a path, and returns the time until the whole response was received.
    fn get(&mut self, path: &str) -> Result<f64> {
        let began = Instant::now();
        let prefix = &self.prefix;
        let request = format!(
            "GET {prefix}{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        );
        self.reader.get_mut().write_all(request.as_bytes())?;
        let head = head(&mut self.reader)?.to_lowercase();
        ensure!(head.starts_with("http/1.1 200"), "{head}");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .context("the response has no length")?;
        let length = length.trim().parse()?;
        let mut body = (&mut self.reader).take(length);
        let read = std::io::copy(&mut body, &mut std::io::sink())?;
        ensure!(read == length, "{read} of {length} bytes were received");
        Ok(began.elapsed().as_secs_f64())
    }
}
