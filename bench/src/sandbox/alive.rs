//! A hundred sandboxes at a time.

use std::time::Instant;

use anyhow::Result;
use futures::StreamExt;

use crate::measure::Samples;
use crate::report::{Bar, Figure, Row, Unit};
use crate::sandbox::Bench;
use crate::server::proportional;

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let count = bench.count(100);
    let server = &bench.server;
    // Creates and deletes one sandbox first, so that memory that the server allocates only once
    // does not count.
    let first = bench.runtime.block_on(server.create())?;
    bench.runtime.block_on(server.delete(&[first]))?;
    let before = proportional(server.pid())?;
    let made = futures::stream::iter(0..count).map(|_| server.create());
    let ids = bench
        .runtime
        .block_on(made.buffer_unordered(4).collect::<Vec<_>>());
    let ids = ids.into_iter().collect::<Result<Vec<_>>>()?;
    let mut agents = 0.0;
    for id in &ids {
        agents += proportional(server.agent_pid(id)?)?;
    }
    let grown = proportional(server.pid())? - before;
    let each = (grown.max(0.0) + agents) / count as f64;
    let mut times = Vec::new();
    for round in 0..bench.count(2000) {
        let id = &ids[round % count];
        let path = match round % 4 {
            0 => "/api/v1/sandboxes?limit=100".to_owned(),
            1 => format!("/api/v1/sandboxes/{id}/process"),
            2 => "/api/v1/stats".to_owned(),
            _ => format!("/api/v1/sandboxes/{id}"),
        };
        let began = Instant::now();
        bench.runtime.block_on(server.get(&path))?;
        times.push(began.elapsed().as_secs_f64());
    }
    bench.runtime.block_on(server.delete(&ids))?;
    times.sort_by(f64::total_cmp);
    let p99 = times[times.len() * 99 / 100];
    let mut memory = Samples::new();
    memory.push(each);
    Ok(vec![
        Row {
            name: format!("p99 of the API with {count} live sandboxes"),
            unit: Unit::Milliseconds,
            ours: Figure {
                median: p99,
                quartiles: (p99, p99),
            },
            peer: None,
            bar: Some(Bar::AtMost(200.0)),
        },
        Row {
            name: format!("memory for each of {count} live sandboxes"),
            unit: Unit::Kibibytes,
            ours: memory.figure(),
            peer: None,
            bar: Some(Bar::AtMost(8192.0)),
        },
    ])
}
