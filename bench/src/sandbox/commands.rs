//! Commands in a running sandbox.

use std::time::Instant;

use anyhow::Result;
use futures::StreamExt;
use serde_json::json;

use crate::measure::Samples;
use crate::peers::{clean_command, time_to_run};
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;

const CLIENTS: usize = 16;

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let server = &bench.server;
    let id = bench.runtime.block_on(server.create())?;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let body = json!({"command": "true"});
    let (mut ours, mut local, mut exec) = (Samples::new(), Samples::new(), Samples::new());
    for round in 0..bench.count(500) {
        let began = Instant::now();
        bench.runtime.block_on(server.post(&path, &body))?;
        ours.push(began.elapsed().as_secs_f64());
        local.push(time_to_run(clean_command("sh").args(["-c", "true"]))?);
        if round % 10 == 0 {
            exec.push(time_to_run(&mut server.docker(&["exec", &id, "true"]))?);
        }
    }
    let mut each = Samples::new();
    let commands = bench.count(3000);
    for _ in 0..3 {
        let began = Instant::now();
        let runs = futures::stream::iter(0..commands).map(|_| server.post(&path, &body));
        let runs = runs.buffer_unordered(CLIENTS).collect::<Vec<_>>();
        let runs = bench.runtime.block_on(runs);
        runs.into_iter().collect::<Result<Vec<_>>>()?;
        each.push(began.elapsed().as_secs_f64() / commands as f64);
    }
    bench.runtime.block_on(server.delete(&[id]))?;
    let ours = ours.figure();
    let row = |name: &str, peer, bar| Row {
        name: name.into(),
        unit: Unit::Milliseconds,
        ours,
        peer: Some(peer),
        bar: Some(bar),
    };
    Ok(vec![
        row(
            "command round trip",
            ("sh -c true", local.figure()),
            Bar::AtMostTimes(3.0),
        ),
        row(
            "command round trip and docker exec",
            ("docker exec", exec.figure()),
            Bar::TimesFaster(15.0),
        ),
        Row {
            name: "a command of 16 clients (300 a second is 3.33)".into(),
            unit: Unit::Milliseconds,
            ours: each.figure(),
            peer: None,
            bar: Some(Bar::AtMost(3.33)),
        },
    ])
}
