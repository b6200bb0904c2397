//! Progress bars of long operations.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Operations shorter than this show no bar.
const PATIENCE: Duration = Duration::from_secs(1);

const REDRAW: Duration = Duration::from_millis(100);

/// The text and the numbers of a progress bar.
pub(crate) struct Watch<F> {
    /// The operation, for example "verifying".
    pub(crate) doing: &'static str,
    /// Plural noun of the things that are counted.
    pub(crate) things: &'static str,
    /// Total number of things, if known.
    pub(crate) total: Option<u64>,
    /// Returns the number of finished things and bytes.
    pub(crate) counts: F,
}

/// Runs `work`, with a progress bar if it takes longer than a second and
/// standard error is a terminal.
pub(crate) fn watch<T, F>(quiet: bool, watch: Watch<F>, work: impl FnOnce() -> T) -> T
where
    F: Fn() -> (u64, u64) + Send,
{
    if quiet || !io::stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        let (done, waiting) = mpsc::channel::<()>();
        let started = Instant::now();
        scope.spawn(move || {
            if waiting.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = bar(watch.doing, watch.total, started);
            while waiting.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
                show(&bar, watch.things, (watch.counts)(), started);
            }
            bar.finish_and_clear();
        });
        let result = work();
        // Ends the other thread. If `work` panics, unwinding drops `done`.
        drop(done);
        result
    })
}

fn bar(doing: &'static str, total: Option<u64>, started: Instant) -> ProgressBar {
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(total, target);
    let template = match total {
        Some(_) => "{prefix} [{bar:24}] {percent:>3}%  {msg}",
        None => "{prefix} {spinner}  {msg}",
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| unreachable!("the templates above are well-formed"));
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(doing);
    bar.with_elapsed(started.elapsed())
}

fn show(bar: &ProgressBar, things: &str, (count, bytes): (u64, u64), started: Instant) {
    let seconds = started.elapsed().as_secs_f64().max(0.001);
    let rate = (bytes as f64 / seconds) as u64;
    let mut message = match count {
        0 => "…".to_owned(),
        count => format!("{} {things}", HumanCount(count)),
    };
    if bytes > 0 {
        message += &format!(", {}, {}/s", BinaryBytes(bytes), BinaryBytes(rate));
    }
    match bar.length() {
        Some(total) => bar.set_position(count.min(total)),
        None => bar.tick(),
    }
    bar.set_message(message);
}
