//! Two processes that use only the catalog move one head, with leases, idempotent requests and events.
//! The checker reads the history of all calls; one more run has faults between the processes and the
//! database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use elevo_catalog::{Error, PostgresCatalog, ServerSession};
use elevo_testkit::postgres::Database;
use elevo_testkit::wire::{Faults, Kind, Wire};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::sleep;

use super::followers::follow_landings;
use super::history::{Action, Entry, History, Operation, Outcome};
use super::lander::Lander;
use super::worker::{Job, Parent, Work, Worker};
use super::{Bench, fixture};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const PROCESSES: usize = 2;
/// Clients of each process.
const CLIENTS: usize = 4;
/// A client also reads the head at one of this many requests.
const READ_EVERY: usize = 8;
const LEASE: &str = "bench";
/// Time that a lease is taken for, and time for which it is used.
const LEASED: Duration = Duration::from_millis(150);
const USED: Duration = Duration::from_millis(20);
/// Pause before another attempt to take a lease or a request of another client.
const RETRY: Duration = Duration::from_millis(10);
/// Time between two cuts of all connections. The new ones have the next faults of the plan.
const CUT_EVERY: Duration = Duration::from_millis(400);
const SEED: u64 = 23;

/// The part of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Share {
    seconds: u64,
}

/// The record of one process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Part {
    operations: Vec<Operation>,
    events: Vec<(u64, u64)>,
    busy: u64,
    unknown: u64,
}

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let quiet = land_together(bench, None)?;
    let each = quiet.time_for_each()?;
    let faulty = land_together(bench, Some(SEED))?;
    let violations = |name: &str, history: &History| Row {
        name: format!("violations found in the history of 2 processes{name}"),
        unit: Unit::Count,
        ours: Samples::of(tell_violations(history)).figure(),
        peer: None,
        bar: Some(Bar::AtMost(0.0)),
    };
    Ok(vec![
        Row {
            name: "time per landing of 2 processes on one project (20 ms is 50 a second)".into(),
            unit: Unit::Milliseconds,
            ours: Samples::of(each).figure(),
            peer: None,
            bar: Some(Bar::AtMost(20.0)),
        },
        violations("", &quiet),
        violations(" with faults", &faulty),
    ])
}

pub(super) fn tell_violations(history: &History) -> f64 {
    let found = history.violations();
    for one in found.iter().take(10) {
        say(&format!("violation: {one}"));
    }
    found.len() as f64
}

impl History {
    /// Time from the first attempt to the last landing, divided by their number, in seconds.
    fn time_for_each(&self) -> Result<f64> {
        let lands = self.operations.iter().filter_map(|one| match &one.action {
            Action::Land { outcome, .. } => Some((one, matches!(outcome, Outcome::Landed(_)))),
            _ => None,
        });
        let began = lands.clone().map(|(one, _)| one.began).min();
        let landed = lands.filter(|(_, has_landed)| *has_landed);
        let ended = landed.map(|(one, _)| one.ended).max();
        let time = ended.context("it has landed")? - began.context("it has begun")?;
        Ok(time as f64 * 1e-9 / self.log.len() as f64)
    }
}

/// Runs both processes; returns their history.
fn land_together(bench: &Bench, seed: Option<u64>) -> Result<History> {
    let seconds = if bench.quick { 5 } else { 30 };
    let database = fixture::database()?;
    let catalog = bench.runtime.block_on(async {
        let catalog = fixture::open(&database.url(), 2, None).await?;
        fixture::furnish(&catalog).await?;
        anyhow::Ok(catalog)
    })?;
    let wires: Vec<_> = (0..PROCESSES).map(|_| database.wire()).collect();
    let mut workers = Vec::new();
    for (process, wire) in wires.iter().enumerate() {
        let url = match seed {
            Some(_) => database.url_through(wire),
            None => database.url(),
        };
        workers.push(Worker::start(&Job {
            url,
            direct: None,
            process,
            result: bench.scratch.join(format!("heads-{process}.json")),
            work: Work::Heads(Share { seconds }),
        })?);
    }
    for worker in &mut workers {
        worker.tell("go")?;
    }
    match seed {
        Some(seed) => with_faults(&wires, seed, || wait_for_all(&mut workers))?,
        None => wait_for_all(&mut workers)?,
    }
    let log = bench.runtime.block_on(async {
        settle(&database).await?;
        let log = whole_log(&catalog).await?;
        catalog.close().await;
        anyhow::Ok(log)
    })?;
    for worker in &mut workers {
        worker.tell(&log.len().to_string())?;
    }
    let parts = workers.into_iter().map(Worker::end);
    let parts: Vec<Part> = parts.collect::<Result<_>>()?;
    Ok(history(log, parts))
}

fn wait_for_all(workers: &mut [Worker]) -> Result<()> {
    workers
        .iter_mut()
        .try_for_each(|worker| worker.wait_for("worked"))
}

/// Gives the connections through the proxies faults while `work` runs.
pub(super) fn with_faults(
    wires: &[Wire],
    seed: u64,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let kinds = [Kind::Refuse, Kind::Delay, Kind::Cut, Kind::CutAtTrip];
    for (seed, wire) in (seed..).zip(wires) {
        wire.plan(Faults::from_seed_of(seed, &kinds));
    }
    let done = AtomicBool::new(false);
    let worked = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                wires.iter().for_each(Wire::cut_all);
                // The interval is part of the load.
                std::thread::sleep(CUT_EVERY);
            }
        });
        let worked = work();
        done.store(true, Ordering::Relaxed);
        worked
    });
    wires.iter().for_each(Wire::heal);
    wires.iter().for_each(Wire::cut_all);
    worked
}

/// Waits until the database runs no landing whose client has lost its connection.
pub(super) async fn settle(database: &Database) -> Result<()> {
    let running = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND state = 'active' AND query LIKE '%land_1%' AND pid <> pg_backend_pid()";
    let mut connection = PgConnection::connect(&database.url()).await?;
    for _ in 0..1000 {
        let left: i64 = sqlx::query_scalar(running)
            .fetch_one(&mut connection)
            .await?;
        if left == 0 {
            return Ok(connection.close().await?);
        }
        sleep(RETRY).await;
    }
    anyhow::bail!("a landing does not end")
}

/// Reads the log, oldest entry first.
pub(super) async fn whole_log(catalog: &PostgresCatalog) -> Result<Vec<Entry>> {
    const PAGE: u32 = 1000;
    let mut log = Vec::new();
    let mut before = None;
    loop {
        let project = fixture::project()?;
        let page = catalog.log(fixture::TENANT, &project, before, PAGE).await?;
        before = page.last().map(|entry| entry.sequence);
        let is_last = page.len() < PAGE as usize;
        for entry in page {
            log.push(Entry {
                sequence: entry.sequence,
                snapshot: entry.snapshot.0.to_string(),
                parent: entry.parent.0.to_string(),
                request: entry.request.context("each landing has a request")?,
            });
        }
        if is_last {
            log.reverse();
            return Ok(log);
        }
    }
}

fn history(log: Vec<Entry>, parts: Vec<Part>) -> History {
    let mut history = History {
        first: fixture::first().0.to_string(),
        log,
        operations: Vec::new(),
        followers: Vec::new(),
    };
    let (mut busy, mut unknown) = (0, 0);
    for part in parts {
        history.operations.extend(part.operations);
        history.followers.push(part.events);
        busy += part.busy;
        unknown += part.unknown;
    }
    say(&format!(
        "{} landings, {} calls; {busy} failed unchanged, {unknown} with an unknown outcome",
        history.log.len(),
        history.operations.len(),
    ));
    history
}

/// The work of one process.
pub(super) fn work(
    runtime: &Runtime,
    catalog: &Arc<PostgresCatalog>,
    job: &Job,
    share: &Share,
    parent: &mut Parent,
) -> Result<Part> {
    let node = format!("bench-{}", job.process);
    let began = catalog.begin_session(&node, Duration::from_secs(600), fixture::now()?);
    let session = runtime.block_on(began)?.session;
    let (total, of_total) = watch::channel(None);
    let following = runtime.spawn(follow_landings(Arc::clone(catalog), of_total));
    parent.turn("ready")?;
    let until = Instant::now() + Duration::from_secs(share.seconds);
    let (landers, leases) = runtime.block_on(async {
        let clients = (0..CLIENTS).map(|client| land_until(catalog, job.process, client, until));
        tokio::try_join!(try_join_all(clients), use_lease(catalog, session, until))
    })?;
    total.send_replace(Some(parent.turn("worked")?.parse()?));
    let mut part = Part {
        operations: leases,
        events: runtime.block_on(following)??,
        ..Part::default()
    };
    for lander in landers {
        part.operations.extend(lander.operations);
        part.busy += lander.failures.busy;
        part.unknown += lander.failures.unknown;
    }
    Ok(part)
}

/// Carries out requests until a time. Every second one also belongs to a client of the other process.
async fn land_until(
    catalog: &PostgresCatalog,
    process: usize,
    client: usize,
    until: Instant,
) -> Result<Lander<'_>> {
    let mut lander = Lander::new(catalog, format!("client {process}.{client}"));
    let mut of_others = Vec::new();
    for number in 0.. {
        if Instant::now() >= until {
            break;
        }
        if number % READ_EVERY == 0 {
            lander.read().await?;
        }
        let key = match number % 2 {
            0 => format!("own {process}.{client} {number}"),
            _ => format!("shared {client} {number}"),
        };
        if !lander.carry_out(&key).await? {
            of_others.push(key);
        }
    }
    for key in of_others {
        let waited = Instant::now();
        while !lander.carry_out(&key).await? {
            ensure!(waited.elapsed().as_secs() < 60, "{key} stays unfinished");
            sleep(RETRY).await;
        }
    }
    Ok(lander)
}

/// Takes the lease again and again. Half of the times it is released, else it expires.
async fn use_lease(
    catalog: &PostgresCatalog,
    session: ServerSession,
    until: Instant,
) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    let mut record = |began, action| {
        let ended = fixture::nanoseconds();
        operations.push(Operation {
            began,
            ended,
            action,
        });
    };
    for number in 0.. {
        if Instant::now() >= until {
            break;
        }
        let began = fixture::nanoseconds();
        let taken = catalog.take_lease(LEASE, session, LEASED, fixture::now()?);
        let lease = match taken.await {
            Ok(Some(lease)) => lease,
            Ok(None) | Err(Error::Busy | Error::Failed(_)) => {
                sleep(RETRY).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let (session_number, token) = (session.0, lease.token);
        let taken = Action::Take {
            session: session_number,
            token,
            nanoseconds: LEASED.as_nanos() as u64,
        };
        record(began, taken);
        // The work under the lease.
        sleep(USED).await;
        if number % 2 == 0 {
            let began = fixture::nanoseconds();
            // Its outcome does not matter: the lease is not used any more.
            let _ = catalog.release_lease(LEASE, session, token).await;
            record(
                began,
                Action::Release {
                    session: session_number,
                    token,
                },
            );
        } else {
            // Longer than the lease, so that the other process gets it.
            sleep(LEASED).await;
        }
    }
    Ok(operations)
}
