//! Processes that use one catalog or store, as servers do: this program again, with a hidden subcommand.
//!
//! A worker reads its job from the first line of its input, and then takes turns with the process that
//! started it, one line each: `ready`, a line, `worked`, a line. It ends when its input ends.

use std::io::{BufRead, BufReader, Lines, StdinLock, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use elevo_catalog::PostgresCatalog;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::store::collection;
use super::{events, fixture, heads};

/// The name of the hidden subcommand.
pub(super) const SUBCOMMAND: &str = "cluster-worker";
/// Connections of each worker, besides those of its background tasks.
const CONNECTIONS: u32 = 8;

/// The part of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) url: String,
    /// The URL for notifications, if it is another one.
    pub(super) direct: Option<String>,
    /// Number of the process, from 0.
    pub(super) process: usize,
    /// The file for the result, as JSON.
    pub(super) result: PathBuf,
    pub(super) work: Work,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    Heads(heads::Share),
    Events(events::Share),
    Collection(collection::Share),
}

/// The worker's end.
pub(super) struct Parent(Lines<StdinLock<'static>>);

impl Parent {
    /// Reports a state and waits for the next line.
    pub(super) fn turn(&mut self, state: &str) -> Result<String> {
        println!("{state}");
        self.hear()
    }

    fn hear(&mut self) -> Result<String> {
        let line = self
            .0
            .next()
            .context("the process that started this one has ended")?;
        Ok(line?)
    }
}

/// Carries out the job on the standard input.
pub(crate) fn run() -> Result<()> {
    let mut parent = Parent(std::io::stdin().lines());
    let job: Job = serde_json::from_str(&parent.hear()?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let open = || -> Result<Arc<PostgresCatalog>> {
        let opened = fixture::open(&job.url, CONNECTIONS, job.direct.clone());
        Ok(Arc::new(runtime.block_on(opened)?))
    };
    match &job.work {
        Work::Collection(share) => collection::work(&runtime, &job, share, &mut parent),
        Work::Heads(share) => {
            let catalog = open()?;
            let done = heads::work(&runtime, &catalog, &job, share, &mut parent)?;
            write(&job.result, &done)
        }
        Work::Events(share) => {
            let catalog = open()?;
            let done = events::work(&runtime, &catalog, &job, share, &mut parent)?;
            write(&job.result, &done)
        }
    }
}

fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    std::fs::write(path, serde_json::to_vec(value)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The other end. The worker is killed when this is dropped.
pub(super) struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    result: PathBuf,
}

impl Worker {
    /// Starts a worker, and waits until it has opened the catalog or the store.
    pub(super) fn start(job: &Job) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("it has an input")?;
        let output = child.stdout.take().context("it has an output")?;
        let mut worker = Self {
            child,
            input,
            output: BufReader::new(output).lines(),
            result: job.result.clone(),
        };
        worker.tell(&serde_json::to_string(job)?)?;
        worker.wait_for("ready")?;
        Ok(worker)
    }

    pub(super) fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}").context("a worker has ended")
    }

    pub(super) fn wait_for(&mut self, state: &str) -> Result<()> {
        let line = self.output.next().context("a worker has ended")??;
        ensure!(line == state, "a worker is {line}, not {state}");
        Ok(())
    }

    /// Waits until the worker has ended; returns its result.
    pub(super) fn end<T: DeserializeOwned>(mut self) -> Result<T> {
        let status = self.child.wait()?;
        ensure!(status.success(), "a worker has failed: {status}");
        Ok(serde_json::from_slice(&std::fs::read(&self.result)?)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
