//! Writes results to standard output, or to that of a remote caller. No other
//! module does this.

pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod conflict;
pub(crate) mod damage;
pub(crate) mod file_info;
pub(crate) mod format;
pub(crate) mod json;
pub(crate) mod notes;
pub(crate) mod patch;
pub(crate) mod progress;
pub(crate) mod project;
pub(crate) mod relative_time;
pub(crate) mod sandbox;
pub(crate) mod saved_snapshot;
pub(crate) mod server_greeting;
pub(crate) mod snapshot;
pub(crate) mod styled_line;
pub(crate) mod table;
pub(crate) mod tree_diff;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anstyle::{AnsiColor, Style};
use rustix::fs::FileType;
use serde::Serialize;

/// A failure to write to standard output. A closed pipe is not reported to the
/// user.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub(crate) struct OutputError(#[source] pub(crate) io::Error);

impl OutputError {
    /// Whether the reader of the output has closed the pipe.
    pub(crate) fn reader_left(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Whether a command failed only because the reader of its output left.
pub(crate) fn reader_left(error: &anyhow::Error) -> bool {
    let output: Option<&OutputError> = error.downcast_ref();
    output.is_some_and(OutputError::reader_left)
}

pub(crate) const IDENTITY: Style = AnsiColor::Yellow.on_default();

pub(crate) const ADDED: Style = AnsiColor::Green.on_default();

pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();

/// Words that differ within a changed line.
pub(crate) const ADDED_WORDS: Style = ADDED.invert();

pub(crate) const REMOVED_WORDS: Style = REMOVED.invert();

pub(crate) const FAINT: Style = Style::new().dimmed();

pub(crate) const PLACE: Style = AnsiColor::Cyan.on_default();

pub(crate) const STRONG: Style = Style::new().bold();

/// Destination of output.
pub(crate) struct Sink {
    pub(crate) out: Box<dyn Write + Send>,
    /// Whether to use colours.
    pub(crate) colour: bool,
    /// Whether it is a terminal, where each line is flushed.
    pub(crate) at_once: bool,
    /// Whether it is a regular file.
    pub(crate) to_file: bool,
}

impl Sink {
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let choice = anstream::AutoStream::choice(&stdout);
        let stat = rustix::fs::fstat(&stdout);
        Self {
            colour: choice != anstream::ColorChoice::Never,
            at_once: stdout.is_terminal(),
            to_file: stat
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile),
            out: Box::new(stdout),
        }
    }
}

/// Buffered output, with colours if the destination supports them.
pub(crate) struct Output {
    /// Locked only by [`Output::flush`], which notes call with a shared reference.
    out: Mutex<BufWriter<Box<dyn Write + Send>>>,
    json: bool,
    colour: bool,
    at_once: bool,
    to_file: bool,
    written: Arc<Written>,
}

/// Numbers of printed lines and bytes, for a progress bar.
#[derive(Debug, Default)]
pub(crate) struct Written {
    lines: AtomicU64,
    bytes: AtomicU64,
}

impl Written {
    /// Returns lines and bytes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let (lines, bytes) = (&self.lines, &self.bytes);
        (lines.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }
}

impl Output {
    /// Creates an output to standard output.
    pub(crate) fn new(json: bool) -> Self {
        Self::to(Sink::stdout(), json)
    }

    pub(crate) fn to(sink: Sink, json: bool) -> Self {
        Self {
            at_once: sink.at_once,
            colour: !json && sink.colour,
            to_file: sink.to_file,
            json,
            written: Arc::default(),
            out: Mutex::new(BufWriter::with_capacity(64 * 1024, sink.out)),
        }
    }

    /// Whether results are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Returns the text in a style, or unchanged without colours.
    pub(crate) fn styled(&self, style: Style, text: impl AsRef<[u8]>) -> Vec<u8> {
        let text = text.as_ref();
        if !self.colour || text.is_empty() {
            return text.to_vec();
        }
        let (on, off) = (style.render(), style.render_reset());
        [on.to_string().as_bytes(), text, off.to_string().as_bytes()].concat()
    }

    /// Returns the counters of printed lines and bytes.
    pub(crate) fn written(&self) -> Arc<Written> {
        self.written.clone()
    }

    /// Columns of the terminal, if the output is one.
    pub(crate) fn columns(&self) -> Option<usize> {
        let is_terminal = self.is_terminal();
        let size = is_terminal.then(|| rustix::termios::tcgetwinsize(io::stdout()).ok());
        let columns = usize::from(size.flatten()?.ws_col);
        (columns > 0).then_some(columns)
    }

    /// Whether the output goes to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.at_once
    }

    /// Whether the output has colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.colour
    }

    /// Whether the output goes to a regular file.
    pub(crate) fn is_to_file(&self) -> bool {
        self.to_file
    }

    /// Writes bytes unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let count = &self.written.bytes;
        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.out().write_all(bytes).map_err(OutputError)
    }

    /// Returns a writer of raw bytes, which are not counted.
    pub(crate) fn writer(&mut self) -> &mut impl Write {
        self.out()
    }

    fn out(&mut self) -> &mut BufWriter<Box<dyn Write + Send>> {
        self.out.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line. Flushes it on a terminal.
    pub(crate) fn line(&mut self, line: impl AsRef<[u8]>) -> Result<(), OutputError> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")?;
        self.written.lines.fetch_add(1, Ordering::Relaxed);
        match self.at_once {
            true => self.out().flush().map_err(OutputError),
            false => Ok(()),
        }
    }

    /// Writes a JSON value as one line.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), OutputError> {
        serde_json::to_writer(self.out(), value).map_err(|error| OutputError(error.into()))?;
        self.line("")
    }

    /// Flushes the buffer.
    pub(crate) fn finish(&mut self) -> Result<(), OutputError> {
        self.out().flush().map_err(OutputError)
    }

    /// Flushes the buffer before a note, so that both appear in their order. The
    /// next write reports a failure.
    pub(crate) fn flush(&self) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.flush();
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // On success `finish` was called. After an error, this prints the
        // output that was buffered before it.
        let _ = self.out().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A destination that tests can read.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn output_appears_before_the_note_that_follows_it() {
        let out = Shared::default();
        let sink = Sink {
            out: Box::new(out.clone()),
            colour: false,
            at_once: false,
            to_file: false,
        };
        let mut output = Output::to(sink, false);
        output.line("result").unwrap();
        assert!(out.0.lock().unwrap().is_empty());
        output.flush();
        assert_eq!(*out.0.lock().unwrap(), b"result\n");
    }
}
