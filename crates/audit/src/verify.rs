//! Whether a log is as it was written.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Result;
use crate::line::{Head, NONE, chain, check_line, split};
use crate::segment::{self, Lines, Piece};

/// As many problems are told.
const MAX_PROBLEMS: usize = 100;

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// What is in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many records there are.
    pub records: u64,
    /// The number of the first; those before it were removed with their segments.
    pub first: Option<u64>,
    /// The newest record.
    pub head: Option<Head>,
    /// What is wrong: the first hundred.
    pub problems: Vec<Problem>,
    /// Bytes at the end that are no whole line: a record that is being written,
    /// or was when the power went.
    pub unfinished: u64,
    /// What an opening of the log has set aside.
    pub aside: Vec<PathBuf>,
}

impl Report {
    fn problem(&mut self, file: &Path, line: u64, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                file: file.into(),
                line,
                what: what.into(),
            });
        }
    }
}

/// Hashes that may come before the next line.
///
/// Of a line whose own hash is wrong, either that or the rest was changed: the
/// next line tells which, and is not blamed for it.
struct Before {
    number: Option<u64>,
    hashes: [[u8; 32]; 2],
}

/// Reads a log from its first record to its last; `expected` are heads that were
/// noted elsewhere.
pub fn verify(
    directory: &Path,
    expected: &[Head],
    mut progress: impl FnMut(u64),
) -> Result<Report> {
    let (segments, aside) = segment::list(directory)?;
    let mut report = Report {
        aside,
        ..Report::default()
    };
    let mut missing: Vec<Head> = expected.to_vec();
    let mut before = Before {
        number: None,
        hashes: [NONE; 2],
    };
    let last = segments.len().saturating_sub(1);
    for (index, (first, path)) in segments.iter().enumerate() {
        let mut lines = Lines::open(path)?;
        let mut number = 0;
        while let Some(piece) = lines.next()? {
            number += 1;
            match piece {
                Piece::Line(line) => {
                    let place = (path.as_path(), number, *first);
                    check(line, place, &mut before, &mut report);
                    missing.retain(|head| Some(*head) != report.head);
                }
                Piece::TooLong => {
                    report.problem(path, number, "the line is too long");
                    break;
                }
                Piece::Torn(bytes) if index == last => report.unfinished = bytes,
                Piece::Torn(_) => report.problem(path, number, "the line is cut off"),
            }
        }
        if number == 0 && index != last {
            report.problem(path, 1, "the file is empty");
        }
        progress(report.records);
    }
    for head in missing {
        // Nothing can be said of what was removed with its segment.
        if report.first.is_some_and(|first| head.number < first) {
            continue;
        }
        let what = format!(
            "record {} with the hash that was noted is not there",
            head.number
        );
        report.problem(directory, 0, what);
    }
    Ok(report)
}

fn check(
    line: &[u8],
    (path, number, first): (&Path, u64, u64),
    before: &mut Before,
    report: &mut Report,
) {
    let is_start = before.number.is_none();
    let checked = match check_line(line, &before.hashes[0]) {
        Ok((checked, _)) => checked,
        Err(error) => {
            report.problem(path, number, error.to_string());
            // It may be this record with any hash; the next line is looked at
            // by what this one says of itself.
            if let Ok((body, stated)) = split(line) {
                before.hashes = [stated, chain(&before.hashes[0], body)];
            }
            before.number = before.number.map(|number| number + 1);
            return;
        }
    };
    let (body, stated) = match split(line) {
        Ok(parts) => parts,
        Err(_) => unreachable!("it was split before"),
    };
    // The oldest that is there follows what was removed.
    if is_start && let Some(prev) = checked.prev {
        before.hashes = [prev; 2];
        if checked.head.number == 1 && prev != NONE {
            report.problem(path, number, "the first record follows nothing");
        }
    }
    let follows = before
        .hashes
        .iter()
        .find(|prev| chain(prev, body) == stated);
    let expected = before.number.map_or(first, |number| number + 1);
    if checked.head.number != expected {
        let what = format!(
            "record {} is where {expected} should be",
            checked.head.number
        );
        report.problem(path, number, what);
    } else if number == 1 && checked.head.number != first {
        report.problem(path, number, "the file has another record's name");
    } else if number == 1 && checked.prev.is_none() {
        report.problem(path, number, "it does not say what it follows");
    } else if follows.is_none() {
        let what = format!("record {expected} is not as it was written");
        report.problem(path, number, what);
    } else if checked.prev.is_some_and(|prev| Some(&prev) != follows) {
        report.problem(path, number, "it follows another record than it says");
    }
    let prev = follows.copied().unwrap_or(before.hashes[0]);
    *before = Before {
        number: Some(checked.head.number),
        hashes: [stated, chain(&prev, body)],
    };
    report.records += 1;
    report.first.get_or_insert(checked.head.number);
    report.head = Some(checked.head);
}
