//! The server's log: one JSON object per line, in a file of limited size. Errors
//! also go to the terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context;
use elevo_server::{TRACE_TARGET, Traces};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::errors::FileProblem;

/// Maximum bytes of a log file before it is rotated.
const LARGEST: u64 = 10 << 20;

/// Starts logging to a file, or to standard error.
pub(crate) fn begin(
    filter: &str,
    file: Option<PathBuf>,
    traces: Option<&Traces>,
) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("cannot parse RUST_LOG")?;
    let filter = filter.add_directive(format!("{TRACE_TARGET}=off").parse()?);
    let registry = tracing_subscriber::registry().with(traces.map(Traces::layer));
    match file {
        None => {
            let lines = fmt::layer().json().flatten_event(true);
            let lines = lines.with_writer(io::stderr).with_filter(filter);
            registry.with(lines).init();
        }
        Some(path) => {
            let file = Bounded::open(&path).map_err(|source| FileProblem::Io {
                action: "write",
                path: path.clone(),
                source,
            })?;
            let lines = fmt::layer().json().flatten_event(true);
            let lines = lines.with_writer(Mutex::new(file)).with_filter(filter);
            let errors = fmt::layer().with_writer(io::stderr).with_target(false);
            let errors = errors.with_ansi(is_coloured());
            let errors = errors.with_filter(LevelFilter::ERROR);
            registry.with(lines).with(errors).init();
            log_panics();
        }
    }
    Ok(())
}

/// Logs panics, because a detached server has no standard error.
fn log_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(%panic, "a thread panicked");
        print(panic);
    }));
}

fn is_coloured() -> bool {
    let choice = anstream::AutoStream::choice(&io::stderr());
    choice != anstream::ColorChoice::Never
}

/// A log file that is rotated once, to `PATH.1`.
#[derive(Debug)]
struct Bounded {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Bounded {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        let path = path.into();
        let mut bounded = Self { path, file, size };
        bounded.turn()?;
        Ok(bounded)
    }

    /// Rotates the file if it is larger than the maximum.
    fn turn(&mut self) -> io::Result<()> {
        if self.size <= LARGEST {
            return Ok(());
        }
        let mut before = self.path.clone().into_os_string();
        before.push(".1");
        fs::rename(&self.path, before)?;
        let mut options = OpenOptions::new();
        self.file = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.turn()?;
        let length = self.file.write(bytes)?;
        self.size += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_does_not_grow_forever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.log");
        let mut log = Bounded::open(&path).unwrap();
        let line = vec![b'x'; 1 << 20];
        for _ in 0..35 {
            log.write_all(&line).unwrap();
        }
        drop(log);
        let size = |path: PathBuf| fs::metadata(path).unwrap().len();
        assert!(size(path.clone()) <= LARGEST + (1 << 20));
        assert!(size(directory.path().join("server.log.1")) <= LARGEST + (1 << 20));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        assert!(Bounded::open(&path).is_ok());
    }
}
