//! Many events for slow receivers: the delivered events, and the memory of the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;
use crate::server::{Server, proportional};

const EVENTS: usize = 100_000;
/// Number of sandboxes that the events are about.
const SANDBOXES: usize = 1000;
/// The response time of each receiver.
const DELAYS: [Duration; 3] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
];
const LONGEST: Duration = Duration::from_secs(1200);
/// Maximum growth of the server's memory, in KiB, after a tenth of the events was delivered.
const FLAT: f64 = 16_384.0;

/// The events that a receiver got.
#[derive(Debug, Default)]
struct Received {
    /// The id of the last event of each sandbox, and the number of its events.
    sandboxes: HashMap<String, (u64, usize)>,
    count: usize,
    again: usize,
    out_of_order: usize,
}

impl Received {
    fn take(&mut self, event: &Value) {
        let (Some(id), Some(sandbox)) = (event["id"].as_u64(), event["data"]["text"].as_str())
        else {
            return;
        };
        let (last, count) = self.sandboxes.entry(sandbox.into()).or_default();
        match id.cmp(last) {
            std::cmp::Ordering::Greater => {
                (*last, *count) = (id, *count + 1);
                self.count += 1;
            }
            // Delivery is at least once: the same event may come again, an earlier one may not.
            std::cmp::Ordering::Equal => self.again += 1,
            std::cmp::Ordering::Less => self.out_of_order += 1,
        }
    }
}

type Shared = Arc<Mutex<Received>>;

async fn receiver(delay: Duration) -> Result<(Shared, String)> {
    let received = Shared::default();
    let taken = received.clone();
    let take = async move |body: Bytes| {
        tokio::time::sleep(delay).await;
        if let Ok(event) = serde_json::from_slice(&body) {
            taken.lock().take(&event);
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let router = Router::new().route("/", post(take));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((received, url))
}

pub(crate) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let scratch = bench.scratch.join("events");
    std::fs::create_dir_all(&scratch)?;
    let settings = [("WEBHOOK_ALLOW_PRIVATE", "true"), ("EVENTS_KEEP", "864000")];
    let server = Server::start_with(&scratch, &settings)?;
    let events = bench.count(EVENTS);
    bench.runtime.block_on(deliver(&server, events))
}

async fn deliver(server: &Server, events: usize) -> Result<Vec<Row>> {
    let mut receivers = Vec::new();
    for delay in DELAYS {
        let (received, url) = receiver(delay).await?;
        let wish = json!({"url": url, "secret": "of the measure"});
        server.post("/api/v1/webhooks", &wish).await?;
        receivers.push(received);
    }
    let each = events / SANDBOXES;
    // Inserts events into the catalog as transactions would, alternating between the sandboxes.
    server.sql(&format!(
        "WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x + 1 < {events}) \
         INSERT INTO events (tenant, kind, subject, at, data) \
         SELECT (SELECT id FROM tenants), 'sandbox.running', 'sbx-' || (x % {SANDBOXES}), \
         1790000000000000 + x, json_object('text', 'sbx-' || (x % {SANDBOXES}), 'more', hex(zeroblob(100))) FROM n"
    ))?;
    let began = Instant::now();
    let (mut early, mut most) = (None, 0.0_f64);
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let held = proportional(server.pid())?;
        let counts: Vec<usize> = receivers
            .iter()
            .map(|received| received.lock().count)
            .collect();
        let least = counts.iter().min().copied().unwrap_or_default();
        if early.is_none() && least * 10 >= events {
            early = Some(held);
        }
        if early.is_some() {
            most = most.max(held);
        }
        if least >= events {
            break;
        }
        ensure!(
            began.elapsed() < LONGEST,
            "{counts:?} of {events} after {LONGEST:?}"
        );
    }
    let seconds = began.elapsed().as_secs_f64();
    let (mut lost, mut out_of_order) = (0, 0);
    for received in &receivers {
        let received = received.lock();
        ensure!(
            received.sandboxes.len() == SANDBOXES,
            "{} sandboxes",
            received.sandboxes.len()
        );
        let short = received
            .sandboxes
            .values()
            .map(|(_, count)| each.saturating_sub(*count));
        lost += short.sum::<usize>();
        out_of_order += received.out_of_order;
    }
    let grown = (most - early.context("it was looked at")?).max(0.0);
    let row = |name: String, unit, value: f64, bar| Row {
        name,
        unit,
        ours: Samples::of(value).figure(),
        peer: None,
        bar,
    };
    Ok(vec![
        row(
            format!("{events} events to 3 slow receivers: lost or out of order"),
            Unit::Count,
            (lost + out_of_order) as f64,
            Some(Bar::AtMost(0.0)),
        ),
        row(
            "memory that grows meanwhile".into(),
            Unit::Kibibytes,
            grown,
            Some(Bar::AtMost(FLAT)),
        ),
        row(
            "until the slowest has all".into(),
            Unit::Seconds,
            seconds,
            None,
        ),
    ])
}
