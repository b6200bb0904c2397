//! The one place that writes to standard output.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
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
pub(crate) const PLACE: Style = AnsiColor::Cyan.on_default();
pub(crate) const STRONG: Style = Style::new().bold();

/// Buffered standard output, with colours only where a person looks.
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    json: bool,
    colour: bool,
    at_once: bool,
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
    pub(crate) fn new(json: bool) -> Self {
        let stdout = io::stdout();
        let choice = anstream::AutoStream::choice(&stdout);
        Self {
            at_once: stdout.is_terminal(),
            colour: !json && choice != anstream::ColorChoice::Never,
            json,
            written: Arc::default(),
            out: BufWriter::with_capacity(64 * 1024, stdout),
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

    /// Whether what is printed goes into a file, where nobody sees it come.
    pub(crate) fn is_to_file(&self) -> bool {
        let stat = rustix::fs::fstat(io::stdout());
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let count = &self.written.bytes;
        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.out.write_all(bytes).map_err(OutputError)
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
