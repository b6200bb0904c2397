//! The files of a log and their lines.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::error::{Result, at};
use crate::format::check_format;
use crate::line::MAX_LINE_BYTES;

/// Options of a log.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size in bytes at which a segment is full and a new segment begins.
    pub segment_bytes: u64,
    /// Maximum number of queued records; further callers wait.
    pub queue: usize,
    /// Maximum number of records kept in memory while the log cannot be
    /// written; further records are lost.
    pub waiting: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            queue: 1024,
            waiting: 1024,
        }
    }
}

const SUFFIX: &str = ".jsonl";

pub(crate) fn name(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

/// A file with the number of its first record.
type Segment = (u64, PathBuf);

/// Returns the segments of a directory in order, and the files that were set
/// aside. Fails if the log has a newer format.
pub(crate) fn list(directory: &Path) -> Result<(Vec<Segment>, Vec<PathBuf>)> {
    check_format(directory)?;
    let (mut segments, mut aside) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let entry = entry.map_err(at(directory))?;
        let file = entry.file_name();
        let Some(file) = file.to_str() else { continue };
        let first = file
            .strip_suffix(SUFFIX)
            .filter(|digits| digits.len() == 20);
        if let Some(first) = first.and_then(|digits| digits.parse().ok()) {
            segments.push((first, entry.path()));
        } else if file.contains(".aside") {
            aside.push(entry.path());
        }
    }
    segments.sort();
    aside.sort();
    Ok((segments, aside))
}

/// The lines of a file, read one at a time and at most [`MAX_LINE_BYTES`] each.
pub(crate) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    line: Vec<u8>,
}

/// A part of a file up to the end of a line.
pub(crate) enum Piece<'a> {
    /// A line, without its newline.
    Line(&'a [u8]),
    /// A line that is too long. The next pieces are the rest of this line.
    TooLong,
    /// The end of the file without a newline: the number of bytes after the
    /// last newline.
    Torn(u64),
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.into(),
            file: BufReader::with_capacity(256 << 10, File::open(path).map_err(at(path))?),
            line: Vec::new(),
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Piece<'_>>> {
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64;
        let mut bounded = io::Read::take(&mut self.file, limit);
        let read = bounded.read_until(b'\n', &mut self.line);
        let read = read.map_err(at(&self.path))?;
        Ok(match self.line.split_last() {
            None => None,
            Some((b'\n', line)) => Some(Piece::Line(line)),
            Some(_) if read as u64 == limit => Some(Piece::TooLong),
            Some(_) => Some(Piece::Torn(read as u64)),
        })
    }
}
