//! Sandboxes of a warm pool, compared with bare containers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use serde_json::json;

use crate::measure::Samples;
use crate::peers::time_to_run;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;
use crate::server::Server;

const POOL: usize = 20;
const BURST: usize = 100;
const FORKS: usize = 10;

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let scratch = bench.scratch.join("warm");
    std::fs::create_dir_all(&scratch)?;
    let pool = format!("base={POOL}");
    let settings = [("WARM_POOL", pool.as_str())];
    let started = Server::with_template(&scratch, &settings);
    let server = bench.runtime.block_on(started)?;
    let mut rows = sequence(bench, &server)?;
    rows.push(burst(bench, &server)?);
    Ok(rows)
}

/// Waits until the pool is full, so that no sandbox is started during a measurement.
async fn full(server: &Server) -> Result<()> {
    let began = Instant::now();
    loop {
        let stats = server.get("/api/v1/stats").await?;
        if stats["pools"][0]["ready"] == POOL {
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_secs(120), "{stats}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Measures the time to the first output, one sandbox after another, in turns; and that of ten
/// forks at once.
fn sequence(bench: &Bench, server: &Server) -> Result<Vec<Row>> {
    let (mut ours, mut bare, mut forks) = (Samples::new(), Samples::new(), Samples::new());
    for round in 0..bench.count(100) {
        let id = bench.runtime.block_on(async {
            full(server).await?;
            let began = Instant::now();
            let id = server.create().await?;
            ours.push(began.elapsed().as_secs_f64());
            full(server).await?;
            anyhow::Ok(id)
        })?;
        bare.push(time_to_run(&mut server.bare_run())?);
        let mut made = vec![id];
        if round % 10 == 0 {
            let forked = bench.runtime.block_on(fork(server, &made[0]));
            let (seconds, forked) = forked?;
            forks.push(seconds);
            made.extend(forked);
        }
        bench.runtime.block_on(server.delete(&made))?;
    }
    Ok(vec![
        Row {
            name: "warm create to first output".into(),
            unit: Unit::Milliseconds,
            ours: ours.figure(),
            peer: Some(("docker run", bare.figure())),
            bar: Some(Bar::AtMostTimes(0.3)),
        },
        Row {
            name: "warm create to first output: p95".into(),
            unit: Unit::Milliseconds,
            ours: ours.at(0.95).figure(),
            peer: Some(("docker run", bare.at(0.95).figure())),
            bar: None,
        },
        Row {
            name: "warm create to first output: p99".into(),
            unit: Unit::Milliseconds,
            ours: ours.at(0.99).figure(),
            peer: Some(("docker run", bare.at(0.99).figure())),
            bar: Some(Bar::AtMostTimes(1.0)),
        },
        Row {
            name: "10 forks of a live sandbox to first outputs".into(),
            unit: Unit::Milliseconds,
            ours: forks.figure(),
            peer: Some(("warm create", ours.figure())),
            bar: Some(Bar::AtMostTimes(2.0)),
        },
    ])
}

/// Creates ten forks. Returns the time from the request to the first output of all.
async fn fork(server: &Server, origin: &str) -> Result<(f64, Vec<String>)> {
    let run = format!("/api/v1/sandboxes/{origin}/process/run");
    server.post(&run, &json!({"command": "date > now"})).await?;
    full(server).await?;
    let began = Instant::now();
    let path = format!("/api/v1/sandboxes/{origin}/fork");
    let forked = server.post(&path, &json!({"count": FORKS})).await?;
    let made = forked["succeeded"].as_array().context("there are forks")?;
    let ids = made.iter().filter_map(|made| made["id"].as_str());
    let ids: Vec<_> = ids.map(str::to_owned).collect();
    ensure!(ids.len() == FORKS, "{forked}");
    let outputs = ids.iter().map(|id| server.run(id));
    futures::future::try_join_all(outputs).await?;
    Ok((began.elapsed().as_secs_f64(), ids))
}

/// Creates more sandboxes at once than the pool has; all of them must succeed.
fn burst(bench: &Bench, server: &Server) -> Result<Row> {
    let (mut ours, mut bare) = (Samples::new(), Samples::new());
    for _ in 0..if bench.quick { 1 } else { 3 } {
        let ids = bench.runtime.block_on(async {
            full(server).await?;
            let began = Instant::now();
            let made = futures::stream::iter(0..BURST).map(|_| server.create());
            let made: Vec<_> = made.buffer_unordered(BURST).collect().await;
            ours.push(began.elapsed().as_secs_f64());
            let ids = made.into_iter().collect::<Result<Vec<_>>>()?;
            server.delete(&ids).await?;
            full(server).await?;
            anyhow::Ok(ids)
        })?;
        ensure!(ids.len() == BURST, "not all were made");
        bare.push(server.bare_runs(BURST)?);
    }
    Ok(Row {
        name: "100 at once to first outputs with 20 warm".into(),
        unit: Unit::Seconds,
        ours: ours.figure(),
        peer: Some(("docker run", bare.figure())),
        bar: Some(Bar::AtMostTimes(0.9)),
    })
}
