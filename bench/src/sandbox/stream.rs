//! Much output over server-sent events, and the memory that the server and the agent need for it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use elevo_api::event_stream::Parser;
use serde::Deserialize;
use serde_json::json;

use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;
use crate::server::proportional;

/// Number of times that a file is printed.
const PARTS: usize = 16;

/// The fields of an event that a client needs. The whole event is parsed, as by a client.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    data: String,
    #[serde(default)]
    exit_code: Option<i32>,
}

/// A command that prints much, which costs little compared with the transfer of its output.
pub(super) struct Printing {
    path: String,
    command: String,
    size: usize,
}

impl Printing {
    /// Writes a file in the sandbox that the command prints repeatedly: `size` bytes in total.
    pub(super) fn prepare(bench: &Bench, id: &str, size: usize) -> Result<Self> {
        let size = size / PARTS * PARTS;
        let part = size / PARTS;
        let make =
            format!("yes the quick brown fox jumps over the lazy dog | head -c {part} > part");
        let path = format!("/api/v1/sandboxes/{id}/process/run");
        let wish = json!({"command": make});
        bench.runtime.block_on(bench.server.post(&path, &wish))?;
        Ok(Self {
            path,
            command: format!("for n in $(seq {PARTS}); do cat part; done"),
            size,
        })
    }

    /// Runs the command, and reads its whole output. Calls `often` after every thousandth piece.
    pub(super) fn read(&self, bench: &Bench, mut often: impl FnMut() -> Result<()>) -> Result<()> {
        let request = bench
            .server
            .request(reqwest::Method::POST, &self.path)
            .json(&json!({"command": self.command, "stream": true, "timeout": 0}));
        let read = bench.runtime.block_on(async {
            let mut answer = request.send().await?;
            let (mut parser, mut total, mut pieces) = (Parser::default(), 0, 0);
            while let Some(piece) = answer.chunk().await? {
                parser.add(&piece)?;
                while let Some(event) = parser.next_event()? {
                    let event: Event = serde_json::from_str(&event.data)?;
                    total += event.data.len();
                    ensure!(event.exit_code.is_none_or(|code| code == 0), "it failed");
                }
                pieces += 1;
                if pieces % 1000 == 0 {
                    often()?;
                }
            }
            anyhow::Ok(total)
        })?;
        ensure!(
            read == self.size,
            "{read} of {} bytes were received",
            self.size
        );
        Ok(())
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let size = bench.count(10) * (1 << 30) / 10;
    let server = &bench.server;
    let id = bench.runtime.block_on(server.create())?;
    let printing = Printing::prepare(bench, &id, size)?;
    let (server_pid, agent_pid) = (server.pid(), server.agent_pid(&id)?);
    let (mut times, mut server_growth, mut agent_growth) =
        (Samples::new(), Samples::new(), Samples::new());
    for round in 0..4 {
        let before = (proportional(server_pid)?, proportional(agent_pid)?);
        let mut most = before;
        let began = Instant::now();
        printing.read(bench, || {
            most.0 = most.0.max(proportional(server_pid)?);
            most.1 = most.1.max(proportional(agent_pid)?);
            Ok(())
        })?;
        // The first round fills buffers that stay.
        if round > 0 {
            times.push(began.elapsed().as_secs_f64() * (1 << 30) as f64 / size as f64);
            server_growth.push((most.0 - before.0).max(0.0));
            agent_growth.push((most.1 - before.1).max(0.0));
        }
    }
    bench
        .runtime
        .block_on(server.delete(&[id]))
        .context("cannot delete")?;
    let memory = |name: &str, samples: &Samples| Row {
        name: name.into(),
        unit: Unit::Kibibytes,
        ours: samples.figure(),
        peer: None,
        bar: Some(Bar::AtMost(16.0 * 1024.0)),
    };
    Ok(vec![
        Row {
            name: "1 GiB of streamed output (200 MB a second is 5.37)".into(),
            unit: Unit::Seconds,
            ours: times.figure(),
            peer: None,
            bar: Some(Bar::AtMost(5.37)),
        },
        memory("growth of the server meanwhile", &server_growth),
        memory("growth of the agent meanwhile", &agent_growth),
    ])
}
