//! Runs the steps of the demo one after the other, until a signal interrupts
//! them, and prints each with its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::errors::{DemoProblem, Exit};
use crate::output::notes::print_note;
use crate::output::progress::{self, Watch};
use crate::output::{FAINT, Output, STRONG};

/// Column of the times.
const TIMES: usize = 72;

/// Signals that interrupt the demo: SIGHUP, SIGINT and SIGTERM.
const SIGNALS: [i32; 3] = [1, 2, 15];

/// Commands to continue with.
const NEXT: [&str; 3] = [
    "elevo up        start a server that stays, and print commands to try",
    "elevo doctor    check what this machine supports",
    "elevo --help    list all commands",
];

pub(super) struct Stage {
    output: Output,
    quiet: bool,
    runtime: Runtime,
    started: Instant,
    stop: CancellationToken,
    /// The first signal that came, or 0.
    signal: Arc<AtomicI32>,
}

impl Stage {
    /// Creates a stage. From now on, signals do not end the process.
    pub(super) fn new(json: bool, quiet: bool) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let (stop, came) = (CancellationToken::new(), Arc::new(AtomicI32::new(0)));
        for number in SIGNALS {
            let _guard = runtime.enter();
            let mut signals = signal(SignalKind::from_raw(number))?;
            let (stop, came) = (stop.clone(), came.clone());
            runtime.spawn(async move {
                // Later signals have no effect: the demo is cleaning up.
                while signals.recv().await.is_some() {
                    let _ = came.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
                    stop.cancel();
                }
            });
        }
        Ok(Self {
            output: Output::new(json),
            quiet: quiet || json,
            runtime,
            started: Instant::now(),
            stop,
            signal: came,
        })
    }

    /// Returns the signal that interrupted the demo.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }

    /// Waits for a step. Fails if a signal comes first.
    pub(super) fn wait<T>(
        &self,
        doing: &'static str,
        step: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.watch(doing, async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(DemoProblem::Interrupted.into()),
                done = step => done,
            }
        })
    }

    /// Like [`Self::wait`], with the time that the step took.
    pub(super) fn timed<T>(
        &self,
        doing: &'static str,
        step: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(T, Duration)> {
        let began = Instant::now();
        let done = self.wait(doing, step)?;
        Ok((done, began.elapsed()))
    }

    /// Waits for a step that no signal interrupts.
    pub(super) fn watch<T>(&self, doing: &'static str, step: impl Future<Output = T>) -> T {
        let watch = Watch {
            doing,
            things: "",
            total: None,
            counts: || (0, 0),
        };
        progress::watch(self.quiet, watch, || self.runtime.block_on(step))
    }

    /// Prints a note, unless the output is quiet or JSON.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            self.output.flush();
            print_note(text);
        }
    }

    /// Prints a sentence about the steps that follow.
    pub(super) fn title(&mut self, text: &str) -> anyhow::Result<()> {
        if self.output.is_json() {
            return Ok(());
        }
        let text = self.output.styled(STRONG, text);
        self.output.line("")?;
        self.output.line(text)?;
        Ok(self.output.finish()?)
    }

    /// Prints a step: the command that a user would type, its time and its
    /// result.
    pub(super) fn tell(
        &mut self,
        step: &'static str,
        command: &str,
        time: Duration,
        result: &[String],
    ) -> anyhow::Result<()> {
        if self.output.is_json() {
            self.output.value(&json!({
                "step": step,
                "command": command,
                "seconds": time.as_secs_f64(),
                "result": result,
            }))?;
            return Ok(self.output.finish()?);
        }
        let blanks = " ".repeat(TIMES.saturating_sub(command.chars().count() + 2));
        let command = self.output.styled(STRONG, command);
        let time = self.output.styled(FAINT, duration(time));
        self.output
            .line([b"$ ", &command[..], blanks.as_bytes(), b" ", &time].concat())?;
        for line in result {
            self.output.line(format!("    {line}"))?;
        }
        Ok(self.output.finish()?)
    }

    /// Prints the total time and the commands to continue with.
    pub(super) fn conclude(&mut self) -> anyhow::Result<()> {
        let time = self.started.elapsed();
        if self.output.is_json() {
            let end = json!({ "step": "end", "seconds": time.as_secs_f64() });
            self.output.value(&end)?;
            return Ok(self.output.finish()?);
        }
        let time = duration(time);
        self.title(&format!(
            "Done in {}. No process, mount, container or file is left.",
            time.trim_start()
        ))?;
        self.output.line("Next:")?;
        for line in NEXT {
            self.output.line(format!("  {line}"))?;
        }
        Ok(self.output.finish()?)
    }

    /// Returns the exit code after a signal.
    pub(super) fn interrupted(&self) -> Exit {
        self.note("interrupted; the demo has deleted everything that it had created");
        Exit::of_command(128 + self.signal().unwrap_or_default())
    }
}

/// `340 ms` or `1.2 s`, aligned at the unit.
fn duration(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis:>4} ms"),
        _ => format!("{:>4.1} s", time.as_secs_f64()),
    }
}
