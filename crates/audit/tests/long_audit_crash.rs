//! Kills writers and cuts the power of disks: every acknowledged record exists
//! afterwards, in one chain.
//!
//! `ELEVO_LONG` sets the number of rounds (see CONTRIBUTING.md), `ELEVO_SEED`
//! repeats a run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use elevo_audit::{Head, Log, Options, read, verify};
use elevo_testkit::crash::{Kills, Running, Victim};
use elevo_testkit::disk::{self, Disk};
use elevo_testkit::long;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const NOW: &str = "2026-11-16T10:00:00.000Z";

/// Writes four records at a time until the process is killed.
fn write(victim: &Victim) {
    let options = Options {
        segment_bytes: 20_000,
        queue: 16,
        ..Options::default()
    };
    let seed = victim.seed();
    Runtime::new().unwrap().block_on(async {
        let directory = victim.directory().join("audit");
        let log = Arc::new(Log::open(&directory, options, || NOW.into()).unwrap());
        for n in 0.. {
            let names: Vec<String> = (0..4).map(|task| format!("{seed}-{n}-{task}")).collect();
            let mut tickets = Vec::new();
            for name in &names {
                let Value::Object(record) = json!({ "event": "x", "name": name }) else {
                    unreachable!()
                };
                tickets.push(log.add(record).await);
            }
            for ticket in tickets {
                ticket.written().await.unwrap();
            }
            victim.acknowledge(format!("{} {}", log.head(), names.join(" ")));
        }
    });
}

fn assert_there(directory: &Path, acknowledged: &[String]) {
    let directory = directory.join("audit");
    if !directory.exists() {
        assert!(acknowledged.is_empty());
        return;
    }
    let heads: Vec<Head> = acknowledged
        .iter()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    let report = verify(&directory, &heads, |_| {}).unwrap();
    assert_eq!(report.problems, vec![]);
    let mut found = HashSet::new();
    read(&directory, 0, |_, record| {
        if let Some(name) = record.get("name") {
            found.insert(name.as_str().unwrap().to_owned());
        }
        true
    })
    .unwrap();
    for line in acknowledged {
        for name in line.split(' ').skip(1) {
            assert!(found.contains(name), "{name} is lost");
        }
    }
}

#[test]
fn kills_lose_nothing_that_was_acknowledged() {
    if let Some(victim) = Victim::here() {
        write(&victim);
    }
    let directory = TempDir::new().unwrap();
    let test = "kills_lose_nothing_that_was_acknowledged";
    let kills = Kills::new(test, directory.path(), long::rounds(100, 10));
    kills
        .longest_life(Duration::from_millis(300))
        .run(|done| assert_there(directory.path(), done.all()));
}

#[test]
fn losses_of_power_lose_nothing_that_was_acknowledged() {
    let test = "losses_of_power_lose_nothing_that_was_acknowledged";
    if let Some(victim) = Victim::here() {
        write(&victim);
    }
    if !disk::in_own_namespace(test) {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mut random = SmallRng::seed_from_u64(long::seed());
    let mut disk = Disk::make(directory.path(), "first", 64 << 20);
    let mut all = Vec::new();
    for round in 0..long::rounds(20, 3) {
        let mut victim = Running::start(test, disk.path(), u64::from(round));
        all.push(victim.wait_for_next());
        victim.work_for_a_moment(&mut random, Duration::from_millis(300));
        victim.pause();
        all.extend(victim.acknowledged());
        let after = disk.lose_power(&format!("loss-{round}"));
        victim.kill();
        assert_there(after.path(), &all);
        let old = std::mem::replace(&mut disk, after);
        old.discard();
    }
    long::note(format!("{} acknowledgements", all.len()));
    assert!(fs::read_dir(disk.path().join("audit")).unwrap().count() > 0);
}
