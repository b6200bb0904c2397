//! Landings while the database is lost: PostgreSQL is killed and restarted, and its standby is promoted
//! while clients cannot reach the old primary any more: their connections are closed, or hang as after a
//! loss of power. The catalog finds the host that can be written.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use elevo_catalog::PostgresCatalog;
use elevo_testkit::wire::{Fault, Wire};
use futures::future::try_join_all;
use tokio::time::sleep;

use super::heads::{tell_violations, whole_log};
use super::history::{History, Operation};
use super::lander::Lander;
use super::pair::Pair;
use super::{Bench, fixture};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

/// Landings during which PostgreSQL is killed, and their writers.
const LANDINGS: usize = 200;
const FEW_WRITERS: usize = 4;
const PROMOTIONS: usize = 10;
const WRITERS: usize = 8;
/// Landings before and after a promotion.
const AROUND: u64 = 20;
const CONNECTIONS: u32 = 8;
/// Longest time for writers to land again.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let promotions = bench.count(PROMOTIONS);
    let parent = bench.scratch.parent().unwrap_or(&bench.scratch);
    let (killed, closed, hung) = bench.runtime.block_on(async {
        let mut servers = Servers::start(parent).await?;
        let killed = servers.kill_in_the_middle().await?;
        let closed = servers.promote_again_and_again(promotions, Loss::Closes);
        let closed = closed.await?;
        let hung = servers
            .promote_again_and_again(promotions, Loss::Hangs)
            .await?;
        servers.catalog.close().await;
        anyhow::Ok((killed, closed, hung))
    })?;
    // Of the whole history.
    let [wrong_by_kill, wrong] = [&killed, &hung].map(|one| Samples::of(one.wrong).figure());
    let row = |name: String, unit, ours, limit| Row {
        name,
        unit,
        ours,
        peer: None,
        bar: Some(Bar::AtMost(limit)),
    };
    Ok(vec![
        row(
            format!("violations in {LANDINGS} landings with a kill of PostgreSQL"),
            Unit::Count,
            wrong_by_kill,
            0.0,
        ),
        row(
            "from the kill of PostgreSQL to the next landing".into(),
            Unit::Seconds,
            killed.waits.figure(),
            10.0,
        ),
        row(
            format!(
                "violations in landings with 2 × {promotions} promotions under {WRITERS} writers"
            ),
            Unit::Count,
            wrong,
            0.0,
        ),
        row(
            format!("from the loss of the primary to the next landing: longest of {promotions}"),
            Unit::Seconds,
            closed.waits.at(1.0).figure(),
            10.0,
        ),
        row(
            format!("the same, and the connections to the primary hang: longest of {promotions}"),
            Unit::Seconds,
            hung.waits.at(1.0).figure(),
            10.0,
        ),
    ])
}

/// The fate of the connections to a lost primary.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    Closes,
    Hangs,
}

struct Outcome {
    wrong: f64,
    /// Seconds from the loss of the database to the next landing.
    waits: Samples,
}

/// Both servers, each behind a proxy, and a catalog that knows both.
struct Servers {
    catalog: PostgresCatalog,
    wires: [Wire; 2],
    pair: Pair,
    operations: Vec<Operation>,
}

/// The state of the writers, for the code beside them.
#[derive(Default)]
struct Progress {
    landed: Cell<u64>,
    /// The beginning of the latest call that has landed.
    began: Cell<u64>,
    stop: Cell<bool>,
}

impl Servers {
    async fn start(parent: &std::path::Path) -> Result<Self> {
        say("starting a primary and a standby");
        let pair = Pair::start(parent).await?;
        let wires = pair.addresses().map(Wire::postgres);
        let hosts = wires.each_ref().map(|wire| wire.address().to_string());
        let url = format!("postgres://elevo@{}/postgres", hosts.join(","));
        let catalog = fixture::open(&url, CONNECTIONS, None).await?;
        fixture::furnish(&catalog).await?;
        Ok(Self {
            catalog,
            wires,
            pair,
            operations: Vec::new(),
        })
    }

    async fn kill_in_the_middle(&mut self) -> Result<Outcome> {
        let progress = Progress::default();
        let writers = (0..FEW_WRITERS).map(|writer| {
            let name = format!("first {writer}");
            write(&self.catalog, name, LANDINGS / FEW_WRITERS, &progress)
        });
        let pair = &mut self.pair;
        let killing = async {
            let half = LANDINGS as u64 / 2;
            wait_until("half of the landings", || progress.landed.get() >= half).await?;
            let (lost, began) = (fixture::nanoseconds(), Instant::now());
            pair.kill_and_restart().await?;
            wait_until("a landing", || progress.began.get() > lost).await?;
            anyhow::Ok(began.elapsed().as_secs_f64())
        };
        let (landers, wait) = tokio::try_join!(try_join_all(writers), killing)?;
        self.operations.extend(operations_of(landers));
        let log = whole_log(&self.catalog).await?;
        ensure!(log.len() == LANDINGS, "{} landings", log.len());
        self.outcome(Samples::of(wait)).await
    }

    async fn promote_again_and_again(&mut self, times: usize, loss: Loss) -> Result<Outcome> {
        let mut waits = Samples::new();
        for time in 0..times {
            waits.push(self.promote_under_writers(time, loss).await?);
        }
        self.outcome(waits).await
    }

    /// Returns the time from the loss of the primary to the next landing.
    async fn promote_under_writers(&mut self, time: usize, loss: Loss) -> Result<f64> {
        let progress = Progress::default();
        let kind = match loss {
            Loss::Closes => "closed",
            Loss::Hangs => "hung",
        };
        let writers = (0..WRITERS).map(|writer| {
            let name = format!("promotion {time}, {kind}, writer {writer}");
            write(&self.catalog, name, usize::MAX, &progress)
        });
        let old = self.pair.primary();
        let (pair, wires) = (&mut self.pair, &self.wires);
        let promoting = async {
            wait_until("landings", || progress.landed.get() >= AROUND).await?;
            match loss {
                Loss::Closes => wires[old].fence(),
                Loss::Hangs => wires[old].set(Fault::Hang),
            }
            let (lost, began) = (fixture::nanoseconds(), Instant::now());
            pair.promote().await?;
            let promoted = began.elapsed().as_secs_f64();
            wait_until("a landing", || progress.began.get() > lost).await?;
            let wait = began.elapsed().as_secs_f64();
            say(&format!(
                "promotion {}: {promoted:.2} s, landing after {wait:.2} s",
                time + 1
            ));
            let enough = progress.landed.get() + AROUND;
            wait_until("landings", || progress.landed.get() >= enough).await?;
            progress.stop.set(true);
            anyhow::Ok(wait)
        };
        let (landers, wait) = tokio::try_join!(try_join_all(writers), promoting)?;
        self.operations.extend(operations_of(landers));
        self.pair.add_standby().await?;
        self.wires[old].heal();
        Ok(wait)
    }

    /// Checks the history so far.
    async fn outcome(&self, waits: Samples) -> Result<Outcome> {
        let history = History {
            first: fixture::first().0.to_string(),
            log: whole_log(&self.catalog).await?,
            operations: self.operations.clone(),
            followers: Vec::new(),
        };
        let wrong = tell_violations(&history);
        Ok(Outcome { wrong, waits })
    }
}

/// Lands `count` requests, or until it is stopped.
async fn write<'a>(
    catalog: &'a PostgresCatalog,
    name: String,
    count: usize,
    progress: &Progress,
) -> Result<Lander<'a>> {
    let mut lander = Lander::new(catalog, name.clone());
    lander.read().await?;
    for number in 0..count {
        if progress.stop.get() {
            break;
        }
        lander.land(&format!("{name}, {number}")).await?;
        let began = lander.operations.last().map_or(0, |last| last.began);
        progress.began.set(progress.began.get().max(began));
        progress.landed.set(progress.landed.get() + 1);
    }
    Ok(lander)
}

fn operations_of(landers: Vec<Lander<'_>>) -> Vec<Operation> {
    let busy: u64 = landers.iter().map(|one| one.failures.busy).sum();
    let unknown: u64 = landers.iter().map(|one| one.failures.unknown).sum();
    say(&format!(
        "{busy} calls failed unchanged, {unknown} with an unknown outcome"
    ));
    landers.into_iter().flat_map(|one| one.operations).collect()
}

async fn wait_until(what: &str, is_reached: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_reached() {
        ensure!(began.elapsed() < PATIENCE, "{what}: none in a minute");
        sleep(POLL).await;
    }
    Ok(())
}
