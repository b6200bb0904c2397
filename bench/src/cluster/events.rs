//! Events of eight writers, seen by three followers in two processes; with notifications, and without.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use elevo_catalog::{EventKind, NewEvent, PostgresCatalog};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::time::{Instant as Alarm, sleep_until};

use super::followers::Follower;
use super::worker::{Job, Parent, Work, Worker};
use super::{Bench, fixture};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

/// Events of each writer, at most this many a second.
const RATE: u64 = 125;
/// Writers of each of the two processes: 1,000 events a second in all.
const WRITERS: usize = 4;
/// Followers of each process.
const FOLLOWERS: [usize; 2] = [2, 1];
const EVENTS: usize = 100_000;
/// Time for the last events to be seen, when all were written.
const LAST: Duration = Duration::from_secs(30);

/// The part of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Share {
    /// Events of each writer.
    each: usize,
    followers: usize,
}

/// The record of one process. Times are of the clock that processes share.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    written: Vec<Written>,
    /// For each follower.
    seen: Vec<Vec<Seen>>,
}

/// A recorded event: its writer, the writer's number of it, and the time when the call returned.
type Written = (usize, u64, u64);
/// An event as a follower saw it: its number, its writer, the writer's number of it, and the time.
type Seen = (u64, usize, u64, u64);

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let events = bench.count(EVENTS);
    let notified = write_and_follow(bench, events, false)?;
    // Each one waits longer, so fewer show as much.
    let polled = write_and_follow(bench, events / 10, true)?;
    let count = |name: &str, value| Row {
        name: format!("events missed or out of order by 3 followers{name}"),
        unit: Unit::Count,
        ours: Samples::of(value).figure(),
        peer: None,
        bar: Some(Bar::AtMost(0.0)),
    };
    let delay = |name: &str, delays: &Samples, limit| Row {
        name: format!("from the insertion of an event to a follower: p99{name}"),
        unit: Unit::Milliseconds,
        ours: delays.at(0.99).figure(),
        peer: None,
        bar: Some(Bar::AtMost(limit)),
    };
    Ok(vec![
        Row {
            name: "time per event of 8 writers (1 ms is 1000 a second)".into(),
            unit: Unit::Milliseconds,
            ours: Samples::of(notified.each).figure(),
            peer: None,
            // They keep the rate, except for the last of the calls.
            bar: Some(Bar::AtMost(1.05)),
        },
        count("", notified.wrong),
        delay("", &notified.delays, 100.0),
        count(" without LISTEN", polled.wrong),
        delay(" without LISTEN", &polled.delays, 1500.0),
    ])
}

struct Outcome {
    /// Seconds for each event.
    each: f64,
    delays: Samples,
    /// Events that a follower missed or saw out of order.
    wrong: f64,
}

fn write_and_follow(bench: &Bench, events: usize, is_cut: bool) -> Result<Outcome> {
    let database = fixture::database()?;
    bench.runtime.block_on(async {
        let catalog = fixture::open(&database.url(), 1, None).await?;
        fixture::furnish(&catalog).await?;
        catalog.close().await;
        anyhow::Ok(())
    })?;
    // The connections of the background tasks, which listen and number.
    let wire = database.wire();
    let each = events / (2 * WRITERS);
    let mut workers = Vec::new();
    for (process, followers) in FOLLOWERS.into_iter().enumerate() {
        workers.push(Worker::start(&Job {
            url: database.url(),
            direct: Some(database.url_through(&wire)),
            process,
            result: bench.scratch.join(format!("events-{process}.json")),
            work: Work::Events(Share { each, followers }),
        })?);
    }
    if is_cut {
        wire.fence();
    }
    for worker in &mut workers {
        worker.tell("go")?;
    }
    let parts = workers.into_iter().map(Worker::end);
    let parts: Vec<Part> = parts.collect::<Result<_>>()?;
    judge(&parts, each)
}

fn judge(parts: &[Part], each: usize) -> Result<Outcome> {
    let mut returned = HashMap::new();
    for (writer, number, at) in parts.iter().flat_map(|part| &part.written) {
        returned.insert((*writer, *number), *at);
    }
    let expected = each * 2 * WRITERS;
    ensure!(returned.len() == expected, "a writer has not written all");
    let (first, last) = (returned.values().min(), returned.values().max());
    let time = last.context("written")? - first.context("written")?;
    let mut outcome = Outcome {
        each: time as f64 * 1e-9 / expected as f64,
        delays: Samples::new(),
        wrong: 0.0,
    };
    for seen in parts.iter().flat_map(|part| &part.seen) {
        outcome.wrong += wrong(seen, expected);
        for (_, writer, number, at) in seen {
            let returned = returned
                .get(&(*writer, *number))
                .context("it was written")?;
            // A follower can see an event before its call returns.
            outcome
                .delays
                .push(at.saturating_sub(*returned) as f64 * 1e-9);
        }
    }
    let (half, most) = (outcome.delays.at(0.5), outcome.delays.at(1.0));
    say(&format!(
        "{expected} events; delay: median {:.0} ms, longest {:.0} ms",
        half.figure().median * 1e3,
        most.figure().median * 1e3
    ));
    Ok(outcome)
}

/// The number of events that are missing, or not after those before them.
fn wrong(seen: &[Seen], expected: usize) -> f64 {
    let mut next = [0; 2 * WRITERS];
    let mut last = 0;
    let mut in_order = 0;
    for (id, writer, number, _) in seen {
        if *id > last && next.get(*writer) == Some(number) {
            next[*writer] += 1;
            in_order += 1;
        }
        last = last.max(*id);
    }
    let out_of_order = seen.len() - in_order;
    (out_of_order + expected.saturating_sub(in_order)) as f64
}

/// The work of one process.
pub(super) fn work(
    runtime: &Runtime,
    catalog: &Arc<PostgresCatalog>,
    job: &Job,
    share: &Share,
    parent: &mut Parent,
) -> Result<Part> {
    let expected = share.each * 2 * WRITERS;
    let following = (0..share.followers)
        .map(|_| runtime.spawn(follow(Arc::clone(catalog), expected, share.time())));
    let following: Vec<_> = following.collect();
    parent.turn("ready")?;
    let writers = (0..WRITERS).map(|writer| {
        let writer = job.process * WRITERS + writer;
        runtime.spawn(write(Arc::clone(catalog), writer, share.each as u64))
    });
    let writers: Vec<_> = writers.collect();
    let mut part = Part {
        written: Vec::new(),
        seen: Vec::new(),
    };
    for written in runtime.block_on(try_join_all(writers))? {
        part.written.extend(written?);
    }
    for seen in runtime.block_on(try_join_all(following))? {
        part.seen.push(seen?);
    }
    Ok(part)
}

impl Share {
    /// Longest time for all events: ten times that of the rate.
    fn time(&self) -> Duration {
        Duration::from_secs(10 * self.each as u64 / RATE) + LAST
    }
}

async fn write(catalog: Arc<PostgresCatalog>, writer: usize, each: u64) -> Result<Vec<Written>> {
    let began = Alarm::now();
    let mut written = Vec::new();
    for number in 0..each {
        // A writer that is late goes on at once.
        sleep_until(began + Duration::from_micros(number * 1_000_000 / RATE)).await;
        let event = NewEvent {
            tenant: fixture::TENANT,
            agent: None,
            kind: EventKind::SandboxRunning,
            subject: writer.to_string(),
            at: fixture::now()?,
            data: json!(number),
        };
        catalog.add_event(&event).await?;
        written.push((writer, number, fixture::nanoseconds()));
    }
    Ok(written)
}

async fn follow(
    catalog: Arc<PostgresCatalog>,
    expected: usize,
    at_most: Duration,
) -> Result<Vec<Seen>> {
    let began = Instant::now();
    let mut follower = Follower::new(catalog);
    let mut seen = Vec::new();
    while seen.len() < expected && began.elapsed() < at_most {
        let events = follower.next().await?;
        let at = fixture::nanoseconds();
        for event in events {
            let writer = event.event.subject.parse()?;
            let number = event.event.data.as_u64().context("it has a number")?;
            seen.push((event.id, writer, number, at));
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_events_that_are_missed_doubled_or_out_of_order() {
        let seen = |all: &[(u64, u64)]| -> Vec<Seen> {
            all.iter()
                .map(|(id, number)| (*id, 0, *number, 0))
                .collect()
        };
        assert_eq!(wrong(&seen(&[(1, 0), (2, 1), (5, 2)]), 3), 0.0);
        assert_eq!(wrong(&seen(&[(1, 0), (2, 1)]), 3), 1.0);
        assert!(wrong(&seen(&[(1, 0), (2, 1), (2, 1), (3, 2)]), 3) > 0.0);
        assert!(wrong(&seen(&[(1, 0), (3, 2), (4, 1)]), 3) > 0.0);
        assert!(wrong(&seen(&[(2, 0), (1, 1), (3, 2)]), 3) > 0.0);
    }
}
