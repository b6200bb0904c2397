//! Measures an agent: its memory, the time in which it starts commands,
//! compared with starts without an agent, and the rate at which it transfers
//! output and data of tunnels.
//!
//! ```sh
//! cargo run -p elevo-agent --example measure -- "$(scripts/agent)"
//! ```

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program: clock, environment and terminal come from here"
)]

use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use elevo_agent_link::{AgentLink, AgentLinks, Authenticate, Command, Event, Settings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const COMMANDS: usize = 500;
const BYTES: u64 = 2 << 30;

struct Anyone;

#[async_trait::async_trait]
impl Authenticate for Anyone {
    async fn is_right(&self, _: &str, _: &str) -> bool {
        true
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let agent = std::env::args().nth(1).context("name the agent")?;
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("agent.sock");
    let links = AgentLinks::new(Arc::new(Anyone), Settings::default());
    let (serving, path) = (links.clone(), socket.clone());
    tokio::spawn(async move { serving.serve_unix(&path, std::future::pending()).await });
    let mut child = start(&agent, &socket)?;
    let link = tokio::time::timeout(Duration::from_secs(10), links.connected("x")).await?;
    let measured = measure(&link, &child).await;
    child.kill()?;
    child.wait()?;
    measured
}

fn start(agent: &str, socket: &Path) -> anyhow::Result<Child> {
    Process::new(agent)
        .env("WORKSPACE_SERVER", format!("unix://{}", socket.display()))
        .env("SANDBOX_ID", "x")
        .env("SANDBOX_TOKEN", "x")
        .spawn()
        .context("cannot start the agent")
}

async fn measure(link: &AgentLink, agent: &Child) -> anyhow::Result<()> {
    println!("resident, idle    {:>8} kB", resident(agent)?);
    let (mut alone, mut through) = (Vec::new(), Vec::new());
    for index in 0..COMMANDS {
        let started = Instant::now();
        spawn_alone()?;
        alone.push(started.elapsed());
        let started = Instant::now();
        run(link, format!("c{index}"), "true").await?;
        through.push(started.elapsed());
    }
    let (alone, through) = (median(alone), median(through));
    println!("sh -c true, alone {:>8} µs", alone.as_micros());
    println!("sh -c true, agent {:>8} µs", through.as_micros());
    let command = format!("dd if=/dev/zero bs=1M count={} 2>/dev/null", BYTES >> 20);
    let started = Instant::now();
    let moved = run(link, "output".to_owned(), &command).await?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "output            {:>8.0} MB/s",
        moved as f64 / seconds / 1e6
    );
    measure_tunnels(link).await?;
    println!("resident, after   {:>8} kB", resident(agent)?);
    Ok(())
}

/// Measures tunnels to a port of this program: the rate in each direction, and
/// the time to open one and to exchange a byte, compared with a direct
/// connection.
async fn measure_tunnels(link: &AgentLink) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move { answer(&mut socket).await });
        }
    });
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..COMMANDS {
        let started = Instant::now();
        exchange(TcpStream::connect(("127.0.0.1", port)).await?).await?;
        direct.push(started.elapsed());
        let started = Instant::now();
        exchange(link.open_port(port).await?).await?;
        through.push(started.elapsed());
    }
    let (direct, through) = (median(direct), median(through));
    println!("exchange, direct  {:>8} µs", direct.as_micros());
    println!("exchange, tunnel  {:>8} µs", through.as_micros());
    for (name, direction) in [("from port", b'r'), ("to port", b'w')] {
        let mut stream = link.open_port(port).await?;
        stream.write_all(&[direction]).await?;
        let started = Instant::now();
        let moved = match direction {
            b'r' => tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?,
            _ => {
                let mut data = tokio::io::repeat(0).take(BYTES);
                let moved = tokio::io::copy(&mut data, &mut stream).await?;
                stream.read_u8().await?;
                moved
            }
        };
        let rate = moved as f64 / started.elapsed().as_secs_f64() / 1e6;
        println!("tunnel, {name:<9} {rate:>8.0} MB/s");
    }
    Ok(())
}

/// Serves one connection: a byte that selects the exchange, and the exchange.
async fn answer(socket: &mut TcpStream) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    match socket.read_u8().await? {
        b'r' => {
            let piece = vec![0; 1 << 20];
            for _ in 0..BYTES >> 20 {
                socket.write_all(&piece).await?;
            }
        }
        b'w' => {
            let mut data = socket.take(BYTES);
            tokio::io::copy(&mut data, &mut tokio::io::sink()).await?;
            socket.write_u8(0).await?;
        }
        byte => socket.write_u8(byte).await?,
    }
    Ok(())
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> anyhow::Result<()> {
    stream.write_u8(b'.').await?;
    stream.read_u8().await?;
    Ok(())
}

fn spawn_alone() -> anyhow::Result<()> {
    let mut shell = Process::new("/bin/sh");
    shell.args(["-c", "true"]).stdin(Stdio::null());
    shell.output()?;
    Ok(())
}

async fn run(link: &AgentLink, id: String, command: &str) -> anyhow::Result<u64> {
    let command = Command {
        id,
        command: command.to_owned(),
        cwd: Some("/".to_owned()),
        read: true,
        ..Command::default()
    };
    let output = link.run(command).await?;
    let mut output = output.context("no output")?;
    let mut bytes = 0;
    loop {
        match output.next().await? {
            Event::Data { data, .. } => bytes += data.len() as u64,
            Event::Gap { .. } => anyhow::bail!("a gap"),
            Event::Exit(_) => return Ok(bytes),
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn resident(agent: &Child) -> anyhow::Result<String> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id()))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let digits = line
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_digit);
    Ok(digits.collect())
}
