//! The log of a server: every error and every warning in it must be expected.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ChildStderr;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tracing_subscriber::EnvFilter;

/// Warnings that depend on the machine and its load, and not on the test.
const USUAL: [&str; 19] = [
    // The agent of a sandbox that was deleted, or a server that is stopping.
    "rejected a workspace agent with a wrong token",
    "a workspace agent connected but did not register",
    "cannot check the container and agent of a sandbox",
    "some requests did not end within STOP_GRACE",
    "some responses did not reach their clients",
    "the last records of the catalog and the audit log were not written in time",
    // A slow machine, or a slow container engine.
    "acquired connection, but time to acquire exceeded slow threshold",
    "the wall clock jumped",
    "cannot use a warm container",
    "cannot delete the unused networks",
    "unused networks may remain",
    // The kernel and the container engine of the machine.
    "with cgroup v1 the kernel limits only",
    "the kernel lacks xt_connlimit or xt_hashlimit",
    "the network `internet` is not available",
    "the engine created a sandbox with a warning",
    "cannot limit the disk access of a sandbox",
    "cannot limit the number of terminals of a sandbox",
    "no usable resolver except Docker's",
    "a sandbox can resolve the names of other sandboxes",
];

/// A file with one JSON object for each line.
pub(crate) struct Log {
    path: PathBuf,
    expected: Mutex<Vec<String>>,
    /// Reports when the output of the last process is in the file.
    copied: Mutex<Option<Receiver<()>>>,
}

impl Log {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            expected: Mutex::default(),
            copied: Mutex::default(),
        }
    }

    fn append(&self) -> File {
        let mut options = File::options();
        options.append(true).create(true).open(&self.path).unwrap()
    }

    /// Writes the output of a process to the file until it ends: first the lines
    /// that were read already.
    pub(crate) fn copy(&self, read: String, mut rest: io::BufReader<ChildStderr>) {
        let mut file = self.append();
        let (done, copied) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = file.write_all(read.as_bytes());
            let _ = io::copy(&mut rest, &mut file);
            let _ = done.send(());
        });
        *self.copied.lock().unwrap() = Some(copied);
    }

    /// Collects what servers in this process log. One subscriber serves the whole
    /// process: nextest runs each test in its own.
    pub(crate) fn collect_here(&self, filter: &str) {
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_env_filter(EnvFilter::new(filter))
            .with_writer(Arc::new(self.append()));
        // It is set already if a server was restarted.
        let _ = subscriber.try_init();
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap_or_default()
    }

    pub(crate) fn expect(&self, part: &str) {
        self.expected.lock().unwrap().push(part.to_owned());
    }

    /// Returns the errors and warnings that the test does not expect.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let expected = self.expected.lock().unwrap();
        let expected = expected.iter().map(String::as_str).chain(USUAL);
        let expected: Vec<_> = expected.collect();
        let is_expected = |line: &str| expected.iter().any(|part| line.contains(part));
        let text = self.text();
        let bad = text
            .lines()
            .filter(|line| is_bad(line) && !is_expected(line));
        bad.map(str::to_owned).collect()
    }

    /// Waits until the output of a process that has ended is in the file.
    pub(crate) fn is_whole(&self) {
        if let Some(copied) = self.copied.lock().unwrap().take() {
            // A process that the server started may have its output open.
            let _ = copied.recv_timeout(Duration::from_secs(5));
        }
    }
}

fn is_bad(line: &str) -> bool {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    line["level"] == "ERROR" || line["level"] == "WARN"
}
