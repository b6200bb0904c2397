//! Single files over HTTP: small ones next to the round trip of a command, and a large one with the
//! memory that the server needs for it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::StreamExt;
use reqwest::{Body, Method};
use serde_json::json;

use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;
use crate::server::{Server, proportional};

const SMALL: usize = 4096;

/// Size of the pieces that the client sends.
const PIECE: usize = 256 << 10;

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = small(bench)?;
    let size = bench.count(10) as u64 * (1 << 30) / 10;
    rows.extend(large(bench, ("file", size), "")?);
    rows.extend(large(bench, ("/tmp/file", size), " by the agent")?);
    Ok(rows)
}

/// Creates a sandbox with space for two large files: the old one exists until the new one is
/// complete. Half of the memory is the limit of `/tmp`.
async fn create(server: &Server) -> Result<String> {
    let wish = json!({"template": "base", "resources": {"disk": "4g", "memory": "6g"}});
    let made = server.post("/api/v1/sandboxes", &wish).await?;
    let id = made["id"].as_str().context("the response has no `id`")?;
    server.run(id).await?;
    Ok(id.to_owned())
}

async fn put(server: &Server, path: &str, body: Body) -> Result<()> {
    let request = server.request(Method::PUT, path).body(body);
    let response = request.send().await?;
    ensure!(response.status().is_success(), "{}", response.text().await?);
    // The connection is used again only after the whole response was read.
    response.bytes().await?;
    Ok(())
}

async fn get(server: &Server, path: &str) -> Result<u64> {
    let mut response = server.request(Method::GET, path).send().await?;
    ensure!(response.status().is_success(), "{}", response.text().await?);
    let mut length = 0;
    while let Some(piece) = response.chunk().await? {
        length += piece.len() as u64;
    }
    Ok(length)
}

fn small(bench: &Bench) -> Result<Vec<Row>> {
    let server = &bench.server;
    let id = bench.runtime.block_on(server.create())?;
    let run = format!("/api/v1/sandboxes/{id}/process/run");
    let body = json!({"command": "true"});
    let paths =
        ["small", "/tmp/small"].map(|path| format!("/api/v1/sandboxes/{id}/files?path={path}"));
    let content = Bytes::from(vec![7; SMALL]);
    let (mut commands, mut ours) = (Samples::new(), [Samples::new(), Samples::new()]);
    for _ in 0..bench.count(500) {
        let began = Instant::now();
        bench.runtime.block_on(server.post(&run, &body))?;
        commands.push(began.elapsed().as_secs_f64());
        for (path, samples) in paths.iter().zip(&mut ours) {
            let began = Instant::now();
            let read = bench.runtime.block_on(async {
                put(server, path, content.clone().into()).await?;
                get(server, path).await
            })?;
            samples.push(began.elapsed().as_secs_f64());
            ensure!(read == SMALL as u64, "{read} of {SMALL} bytes were read");
        }
    }
    bench.runtime.block_on(server.delete(&[id]))?;
    let commands = commands.figure();
    let row = |name: &str, samples: &Samples| Row {
        name: name.into(),
        unit: Unit::Milliseconds,
        ours: samples.figure(),
        peer: Some(("command round trip", commands)),
        bar: Some(Bar::AtMostTimes(2.0)),
    };
    Ok(vec![
        row("write and read of 4 KiB", &ours[0]),
        row("write and read of 4 KiB by the agent", &ours[1]),
    ])
}

/// Writes and reads a file of `size` bytes. The figures are those of a GiB.
fn large(bench: &Bench, (path, size): (&str, u64), place: &str) -> Result<Vec<Row>> {
    let server = &bench.server;
    let id = bench.runtime.block_on(create(server))?;
    let path = format!("/api/v1/sandboxes/{id}/files?path={path}");
    let piece = Bytes::from(vec![7; PIECE]);
    let pids = [server.pid(), server.agent_pid(&id)?];
    let (mut up, mut down) = (Samples::new(), Samples::new());
    let mut growth = [Samples::new(), Samples::new()];
    for round in 0..4 {
        let before = pids.map(proportional);
        let scaled =
            |began: Instant| began.elapsed().as_secs_f64() * (1 << 30) as f64 / size as f64;
        let began = Instant::now();
        let piece = piece.clone();
        let pieces = futures::stream::iter(0..size / PIECE as u64)
            .map(move |_| Ok::<_, std::io::Error>(piece.clone()));
        let (sent, mut most) = bench.runtime.block_on(async {
            let sending = put(server, &path, Body::wrap_stream(pieces));
            while_measured(sending, pids).await
        });
        sent?;
        let took_up = scaled(began);
        let began = Instant::now();
        let (read, more) = bench
            .runtime
            .block_on(while_measured(get(server, &path), pids));
        let read = read?;
        ensure!(read == size, "{read} of {size} bytes were read");
        // The first round fills buffers that stay.
        if round > 0 {
            up.push(took_up);
            down.push(scaled(began));
            for (index, before) in before.into_iter().enumerate() {
                most[index] = most[index].max(more[index]);
                growth[index].push((most[index] - before?).max(0.0));
            }
        }
    }
    bench.runtime.block_on(server.delete(&[id]))?;
    let time = |name: &str, samples: &Samples| Row {
        name: format!("1 GiB {name}{place} (200 MB a second is 5.37)"),
        unit: Unit::Seconds,
        ours: samples.figure(),
        peer: None,
        bar: Some(Bar::AtMost(5.37)),
    };
    let memory = |name: &str, samples: &Samples| Row {
        name: format!("growth of the {name} during these GiB{place}"),
        unit: Unit::Kibibytes,
        ours: samples.figure(),
        peer: None,
        bar: Some(Bar::AtMost(16.0 * 1024.0)),
    };
    Ok(vec![
        time("up", &up),
        time("down", &down),
        memory("server", &growth[0]),
        memory("agent", &growth[1]),
    ])
}

/// Completes `work`, and measures the memory of processes meanwhile. Returns the most bytes of each.
async fn while_measured<T>(work: impl Future<Output = T>, pids: [u32; 2]) -> (T, [f64; 2]) {
    let mut most = [0.0, 0.0];
    let mut often = tokio::time::interval(std::time::Duration::from_millis(200));
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return (done, most),
            _ = often.tick() => {
                for (most, pid) in most.iter_mut().zip(pids) {
                    *most = f64::max(*most, proportional(pid).unwrap_or_default());
                }
            }
        }
    }
}
