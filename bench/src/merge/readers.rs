//! A thousand workspaces that follow the head are read while a hundred others move it.
//!
//! Every head has one number in all files of a directory. A reader that opens the directory once
//! and reads the files through it must find the same number in all of them during any merge, and
//! never wait.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use serde_json::json;

use super::Bench;
use super::projects::{Served, Workspace};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;
use crate::workspace::FEW;

const READERS: usize = 1000;
const WRITERS: usize = 100;
/// Files that contain the head's number.
const NUMBERED: usize = 10;
const DIRECTORY: &str = "numbered";
/// Number of threads that read all workspaces in turns.
const THREADS: usize = 8;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let (readers, writers) = (bench.count(READERS), bench.count(WRITERS));
    let time = Duration::from_secs(if bench.quick { 5 } else { 30 });
    let served = Served::start(bench, &[FEW])?;
    let (readers, writers) = bench
        .runtime
        .block_on(workspaces(&served, readers, writers))?;
    say("reading without writers");
    let quiet = read_for(&readers, time / 3)?;
    say("reading while all write");
    let stop = AtomicBool::new(false);
    let landed = Mutex::new(HashMap::from([(0, 0)]));
    let busy = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let writing = (writers.iter().enumerate())
                .map(|(number, one)| write(&served, number, one, &stop, &landed));
            bench.runtime.block_on(try_join_all(writing)).map(drop)
        });
        let busy = read_for(&readers, time);
        stop.store(true, Ordering::Relaxed);
        let written = writing.join();
        written.map_err(|_| anyhow::anyhow!("a writer has panicked"))??;
        busy
    })?;
    let landed = landed.into_inner();
    let seen = busy.in_order(&landed)?;
    say(&format!(
        "{} reads of {} heads that {} merges made in {} s",
        busy.reads,
        seen,
        landed.len() - 1,
        time.as_secs()
    ));
    Ok(rows(
        &quiet,
        &busy,
        time,
        landed.len() - 1,
        (readers.len(), writers.len()),
    ))
}

fn rows(
    quiet: &Reading,
    busy: &Reading,
    time: Duration,
    merges: usize,
    (readers, writers): (usize, usize),
) -> Vec<Row> {
    let once = |value: f64| {
        let mut samples = Samples::new();
        samples.push(value);
        samples.figure()
    };
    let row = |name: &str, ours, peer, bar| Row {
        name: format!("{readers} readers under {writers} writers: {name}"),
        unit: Unit::Milliseconds,
        ours,
        peer: Some(("without writers", peer)),
        bar,
    };
    vec![
        row(
            "the longest call",
            once(busy.longest),
            once(quiet.longest),
            Some(Bar::AtMost(100.0)),
        ),
        row("a file", busy.files.figure(), quiet.files.figure(), None),
        Row {
            peer: None,
            ..row(
                "a merge meanwhile",
                once(time.as_secs_f64() / merges.max(1) as f64),
                once(0.0),
                None,
            )
        },
    ]
}

/// Creates workspaces that follow the head, and workspaces to write in.
async fn workspaces(
    served: &Served,
    readers: usize,
    writers: usize,
) -> Result<(Vec<Workspace>, Vec<Workspace>)> {
    let policy = json!({"rules": [{"pattern": format!("{DIRECTORY}/**"), "merge": "last-writer"}]});
    let project = served.project("readers", FEW, policy).await?;
    let wish = json!({"project": project});
    let first = served.workspaces(1, &wish).await?;
    put_number(&first[0], 0)?;
    first[0].merge(&served.server).await?;
    let writers = served.workspaces(writers, &wish).await?;
    let follows = json!({"project": project, "readOnly": true, "sync": {"mode": "event"}});
    let readers = served.workspaces(readers, &follows).await?;
    Ok((readers, writers))
}

fn put_number(workspace: &Workspace, number: u64) -> Result<()> {
    (0..NUMBERED)
        .try_for_each(|file| workspace.write(&format!("{DIRECTORY}/{file}"), number.to_string()))
}

/// Merges one number after another, and records the step of each.
async fn write(
    served: &Served,
    writer: usize,
    workspace: &Workspace,
    stop: &AtomicBool,
    landed: &Mutex<HashMap<u64, u64>>,
) -> Result<()> {
    for round in 1.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let number = round * 1000 + writer as u64;
        put_number(workspace, number)?;
        let done = workspace.merge(&served.server).await?;
        ensure!(done["landedCount"] == NUMBERED, "{done}");
        let sequence = done["step"].as_u64().context("it has landed")?;
        landed.lock().insert(number, sequence);
    }
    Ok(())
}

/// The results of the readers.
#[derive(Default)]
struct Reading {
    /// Longest call, in seconds.
    longest: f64,
    /// A sample of the times for a file.
    files: Samples,
    reads: u64,
    /// The numbers that each reader saw, in order.
    seen: Vec<Vec<u64>>,
}

impl Reading {
    /// Returns the number of heads seen. Fails if a reader saw a head that never existed, or an
    /// older head after a newer one.
    fn in_order(&self, landed: &HashMap<u64, u64>) -> Result<usize> {
        let mut all = std::collections::HashSet::new();
        for seen in &self.seen {
            let mut last = 0;
            for number in seen {
                let step = landed.get(number);
                let step = *step.with_context(|| format!("{number} was never merged"))?;
                ensure!(step >= last, "a reader went back from {last} to {step}");
                last = step;
                all.insert(step);
            }
        }
        Ok(all.len())
    }
}

/// Reads all workspaces in turns, for the given time.
fn read_for(readers: &[Workspace], time: Duration) -> Result<Reading> {
    let end = Instant::now() + time;
    let reads = AtomicU64::new(0);
    let part = readers.len().div_ceil(THREADS);
    let parts = std::thread::scope(|scope| {
        let threads = readers.chunks(part).map(|part| {
            let reads = &reads;
            scope.spawn(move || read_part(part, end, reads))
        });
        let threads: Vec<_> = threads.collect();
        let parts = threads.into_iter().map(|thread| match thread.join() {
            Ok(part) => part,
            Err(_) => anyhow::bail!("a reader has panicked"),
        });
        parts.collect::<Result<Vec<_>>>()
    })?;
    let mut all = Reading::default();
    for part in parts {
        all.longest = all.longest.max(part.longest);
        all.files.extend(&part.files);
        all.seen.extend(part.seen);
    }
    all.reads = reads.into_inner();
    Ok(all)
}

fn read_part(part: &[Workspace], end: Instant, reads: &AtomicU64) -> Result<Reading> {
    let mut reading = Reading {
        seen: vec![Vec::new(); part.len()],
        ..Reading::default()
    };
    while Instant::now() < end {
        for (workspace, seen) in part.iter().zip(&mut reading.seen) {
            let (number, longest, whole) = read_all(&workspace.path)?;
            if seen.last() != Some(&number) {
                seen.push(number);
            }
            reading.longest = reading.longest.max(longest);
            // Keeps the times of every sixteenth read, which are enough for a median.
            if reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(16) {
                reading.files.push(whole / NUMBERED as f64);
            }
        }
    }
    Ok(reading)
}

/// Returns the number in all files of the directory, the longest call, and the total time.
fn read_all(workspace: &Path) -> Result<(u64, f64, f64)> {
    let began = Instant::now();
    let mut longest = 0.0_f64;
    let mut last = began;
    let mut lap = || {
        let now = Instant::now();
        longest = longest.max(now.duration_since(last).as_secs_f64());
        last = now;
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(
        workspace.join(DIRECTORY),
        flags | OFlags::DIRECTORY,
        Mode::empty(),
    )?;
    lap();
    let mut number = None;
    let mut text = String::new();
    for file in 0..NUMBERED {
        let opened = rustix::fs::openat(&directory, file.to_string(), flags, Mode::empty())?;
        lap();
        text.clear();
        File::from(opened).read_to_string(&mut text)?;
        lap();
        let found: u64 = text.parse()?;
        ensure!(
            number.is_none_or(|number| number == found),
            "{found} and {number:?} in one directory"
        );
        number = Some(found);
    }
    let number = number.context("there are files")?;
    Ok((number, longest, began.elapsed().as_secs_f64()))
}
