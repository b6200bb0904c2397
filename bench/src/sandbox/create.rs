//! Creating and forking sandboxes, compared with bare containers.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use serde_json::json;

use crate::measure::Samples;
use crate::peers::time_to_run;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;

const BURST: usize = 50;

/// Measures the time to the first output, one sandbox after another, in turns.
pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let rounds = bench.count(100);
    let (mut ours, mut bare, mut fork) = (Samples::new(), Samples::new(), Samples::new());
    let server = &bench.server;
    let origin = bench.runtime.block_on(server.create())?;
    for _ in 0..rounds {
        let (seconds, id) = bench.runtime.block_on(async {
            let began = Instant::now();
            let id = server.create().await?;
            anyhow::Ok((began.elapsed().as_secs_f64(), id))
        })?;
        ours.push(seconds);
        bare.push(time_to_run(&mut server.bare_run())?);
        let (seconds, forked) = bench.runtime.block_on(async {
            server
                .post(
                    &format!("/api/v1/sandboxes/{origin}/process/run"),
                    &json!({"command": "date > now"}),
                )
                .await?;
            let began = Instant::now();
            let forked = server
                .post(
                    &format!("/api/v1/sandboxes/{origin}/fork"),
                    &json!({"count": 1}),
                )
                .await?;
            let id = forked["succeeded"][0]["id"]
                .as_str()
                .context("it was forked")?
                .to_owned();
            server.run(&id).await?;
            anyhow::Ok((began.elapsed().as_secs_f64(), id))
        })?;
        fork.push(seconds);
        bench.runtime.block_on(server.delete(&[id, forked]))?;
    }
    bench.runtime.block_on(server.delete(&[origin]))?;
    Ok(vec![
        Row {
            name: "create to first output".into(),
            unit: Unit::Milliseconds,
            ours: ours.figure(),
            peer: Some(("docker run", bare.figure())),
            bar: Some(Bar::AtMostTimes(1.3)),
        },
        Row {
            name: "fork of a live sandbox to first output".into(),
            unit: Unit::Milliseconds,
            ours: fork.figure(),
            peer: Some(("create", ours.figure())),
            bar: Some(Bar::AtMostTimes(1.1)),
        },
    ])
}

/// Creates many sandboxes at once; all of them must succeed.
pub(crate) fn burst(bench: &mut Bench) -> Result<Vec<Row>> {
    let (mut ours, mut bare) = (Samples::new(), Samples::new());
    let server = &bench.server;
    for _ in 0..if bench.quick { 1 } else { 3 } {
        let (seconds, ids) = bench.runtime.block_on(async {
            let began = Instant::now();
            let made = futures::stream::iter(0..BURST).map(|_| server.create());
            let made: Vec<_> = made.buffer_unordered(BURST).collect().await;
            anyhow::Ok((began.elapsed().as_secs_f64(), made))
        })?;
        let ids = ids.into_iter().collect::<Result<Vec<_>>>()?;
        ensure!(ids.len() == BURST, "not all were made");
        ours.push(seconds);
        bench.runtime.block_on(server.delete(&ids))?;
        bare.push(server.bare_runs(BURST)?);
    }
    Ok(vec![Row {
        name: "50 at once to first outputs".into(),
        unit: Unit::Seconds,
        ours: ours.figure(),
        peer: Some(("docker run", bare.figure())),
        bar: Some(Bar::AtMostTimes(1.3)),
    }])
}
