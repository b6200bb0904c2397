//! The one place that writes results: to standard output, or to that of a
//! caller elsewhere.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anstyle::{AnsiColor, Style};
use rustix::fs::FileType;
use serde::Serialize;

/// Standard output failed; a reader that has left is no failure.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub(crate) struct OutputError(#[source] pub(crate) io::Error);

impl OutputError {
    /// Whether whoever reads the output has seen enough.
    pub(crate) fn reader_left(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

pub(crate) const IDENTITY: Style = AnsiColor::Yellow.on_default();
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();
/// Of a changed line, the words that are others.
pub(crate) const ADDED_WORDS: Style = ADDED.invert();
pub(crate) const REMOVED_WORDS: Style = REMOVED.invert();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const PLACE: Style = AnsiColor::Cyan.on_default();
pub(crate) const STRONG: Style = Style::new().bold();

/// Where output goes.
pub(crate) struct Sink {
    pub(crate) out: Box<dyn Write + Send>,
    /// Whether a person wants colours there.
    pub(crate) colour: bool,
    /// Whether it is a terminal, where every line shows at once.
    pub(crate) at_once: bool,
    /// Whether it is a file, where nobody sees it come.
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

/// Buffered output, with colours only where a person looks.
pub(crate) struct Output {
    out: BufWriter<Box<dyn Write + Send>>,
    json: bool,
    colour: bool,
    at_once: bool,
    to_file: bool,
    written: Arc<Written>,
}

/// How much has been printed, for whoever watches.
#[derive(Debug, Default)]
pub(crate) struct Written {
    lines: AtomicU64,
    bytes: AtomicU64,
}

impl Written {
    /// Lines and bytes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let (lines, bytes) = (&self.lines, &self.bytes);
        (lines.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }
}

impl Output {
    /// Standard output.
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
            out: BufWriter::with_capacity(64 * 1024, sink.out),
        }
    }

    /// Whether JSON is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Text in a style, if there are colours.
    pub(crate) fn styled(&self, style: Style, text: impl AsRef<[u8]>) -> Vec<u8> {
        let text = text.as_ref();
        if !self.colour || text.is_empty() {
            return text.to_vec();
        }
        let (on, off) = (style.render(), style.render_reset());
        [on.to_string().as_bytes(), text, off.to_string().as_bytes()].concat()
    }

    /// How much has been printed.
    pub(crate) fn written(&self) -> Arc<Written> {
        self.written.clone()
    }

    /// Whether a person reads it as it comes.
    pub(crate) fn is_terminal(&self) -> bool {
        self.at_once
    }

    /// Whether there are colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.colour
    }

    /// Whether what is printed goes into a file, where nobody sees it come.
    pub(crate) fn is_to_file(&self) -> bool {
        self.to_file
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let count = &self.written.bytes;
        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.out.write_all(bytes).map_err(OutputError)
    }

    /// For somebody who writes bytes as they are.
    pub(crate) fn writer(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// One line. On a terminal it shows at once.
    pub(crate) fn line(&mut self, line: impl AsRef<[u8]>) -> Result<(), OutputError> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")?;
        self.written.lines.fetch_add(1, Ordering::Relaxed);
        match self.at_once {
            true => self.out.flush().map_err(OutputError),
            false => Ok(()),
        }
    }

    /// One JSON value on a line of its own.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), OutputError> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| OutputError(error.into()))?;
        self.line("")
    }

    /// Makes sure that all of it has left.
    pub(crate) fn finish(&mut self) -> Result<(), OutputError> {
        self.out.flush().map_err(OutputError)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Where this matters, `finish` was called; on the way out of an error
        // what was printed before it should still be seen.
        let _ = self.out.flush();
    }
}
