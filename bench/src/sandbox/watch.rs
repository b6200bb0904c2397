//! A watch of the files of a sandbox: a reader that keeps up sees all changes, and one that stalls
//! gets one gap.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use elevo_api::event_stream::Parser;
use elevo_api::{WatchEvent, WatchKind};
use reqwest::{Method, Response};
use serde_json::json;

use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;
use crate::server::Server;

const DIRECTORIES: usize = 1000;

/// Changes that one command makes, in as many directories.
const TOGETHER: usize = 100;

/// Time between two of these commands: 1,000 changes a second.
const PAUSE: Duration = Duration::from_millis(100);

/// Time without an event after which no more are expected.
const SILENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let server = &bench.server;
    let seconds = bench.count(30).max(3);
    bench.runtime.block_on(async {
        let id = server.create().await?;
        command(server, &id, &format!("mkdir $(seq -f d%g {DIRECTORIES})")).await?;
        let mut rows = keeping_up(server, &id, seconds).await?;
        rows.extend(stalling(server, &id).await?);
        server.delete(&[id]).await?;
        Ok(rows)
    })
}

async fn command(server: &Server, id: &str, command: &str) -> Result<()> {
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let result = server.post(&path, &json!({"command": command})).await?;
    ensure!(result["exitCode"] == 0, "{result}");
    Ok(())
}

/// The events of a watch.
struct Watch {
    response: Response,
    parser: Parser,
}

impl Watch {
    /// Begins a watch, and waits until all directories are watched.
    async fn begin(server: &Server, id: &str) -> Result<Self> {
        let path = format!("/api/v1/sandboxes/{id}/files/watch");
        let response = server.request(Method::GET, &path).send().await?;
        ensure!(response.status().is_success(), "{}", response.status());
        let mut watch = Self {
            response,
            parser: Parser::default(),
        };
        let first = watch.next().await?.context("there is no event")?;
        ensure!(first.kind == WatchKind::Watching, "{first:?}");
        Ok(watch)
    }

    /// Returns the next event; `None` if there is none for a while.
    async fn next(&mut self) -> Result<Option<WatchEvent>> {
        loop {
            while let Some(event) = self.parser.next_event()? {
                if !event.data.is_empty() {
                    return Ok(Some(serde_json::from_str(&event.data)?));
                }
            }
            match tokio::time::timeout(SILENCE, self.response.chunk()).await {
                Ok(piece) => self.parser.add(&piece?.context("the stream has ended")?)?,
                Err(_) => return Ok(None),
            }
        }
    }
}

async fn keeping_up(server: &Server, id: &str, seconds: usize) -> Result<Vec<Row>> {
    let watch = Watch::begin(server, id).await?;
    let reading = tokio::spawn(read(watch));
    let mut expected = HashSet::new();
    let began = Instant::now();
    let mut ticks = tokio::time::interval(PAUSE);
    for part in 0..seconds * DIRECTORIES / TOGETHER {
        ticks.tick().await;
        let first = part * TOGETHER % DIRECTORIES + 1;
        let last = first + TOGETHER - 1;
        let write = format!("for d in $(seq {first} {last}); do echo > d$d/{part}; done");
        command(server, id, &write).await?;
        expected.extend((first..=last).map(|number| format!("d{number}/{part}")));
    }
    let each = began.elapsed().as_secs_f64() / expected.len() as f64;
    let (seen, gaps) = reading.await??;
    let missing = expected.difference(&seen).count();
    Ok(vec![
        Row {
            name: "a change in one of 1000 watched directories (1000 a second is 1)".into(),
            unit: Unit::Milliseconds,
            ours: Samples::of(each).figure(),
            peer: None,
            bar: Some(Bar::AtMost(1.05)),
        },
        count(
            &format!("of {} changes not seen", expected.len()),
            missing,
            0,
        ),
        count("gaps of a reader that keeps up", gaps, 0),
    ])
}

/// Reads events until none comes for a while. Returns the paths with an event, and the number of
/// gaps.
async fn read(mut watch: Watch) -> Result<(HashSet<String>, usize)> {
    let (mut seen, mut gaps) = (HashSet::new(), 0);
    while let Some(event) = watch.next().await? {
        match (event.kind, event.path) {
            (WatchKind::Gap, _) => gaps += 1,
            (_, path) => seen.extend(path),
        }
    }
    Ok((seen, gaps))
}

/// Makes more changes than any buffer holds before the reader begins to read.
async fn stalling(server: &Server, id: &str) -> Result<Vec<Row>> {
    let watch = Watch::begin(server, id).await?;
    for round in 0..100 {
        let write = format!("for d in $(seq {DIRECTORIES}); do echo > d$d/stalled-{round}; done");
        command(server, id, &write).await?;
    }
    let (_, gaps) = read(watch).await?;
    // More than one gap is above the bar, and none makes the measure fail.
    ensure!(gaps > 0, "the reader got all events: nothing was measured");
    Ok(vec![count("gaps of a reader that stalls", gaps, 1)])
}

fn count(name: &str, found: usize, most: usize) -> Row {
    Row {
        name: name.into(),
        unit: Unit::Count,
        ours: Samples::of(found as f64).figure(),
        peer: None,
        bar: Some(Bar::AtMost(most as f64)),
    }
}
