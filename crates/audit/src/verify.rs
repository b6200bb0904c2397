//! Verification of a log.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Result;
use crate::line::{Head, NONE, chain, check_line, split};
use crate::segment::{self, Lines, Piece};

/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 100;

/// A place where the log differs from the records that were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file of the log, or its directory.
    pub file: PathBuf,
    /// Number of the line, starting at 1; 0 for the directory.
    pub line: u64,
    /// Description of the problem.
    pub what: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of records.
    pub records: u64,
    /// Number of the first record; earlier records were deleted with their
    /// segments.
    pub first: Option<u64>,
    /// The newest record.
    pub head: Option<Head>,
    /// The problems, at most 100.
    pub problems: Vec<Problem>,
    /// Number of bytes after the last newline: a record that is being written,
    /// or whose write was interrupted.
    pub unfinished: u64,
    /// Files that were set aside when the log was opened.
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

/// Hashes that may precede the next line.
///
/// If the hash of a line is wrong, either the hash or the rest of the line was
/// changed. The next line then follows either the hash that the line states or
/// the hash of its content. Both are accepted, so that only the changed line is
/// reported.
struct Before {
    number: Option<u64>,
    hashes: [[u8; 32]; 2],
}

/// Checks all records of a log, oldest first. `expected` are heads that were
/// recorded elsewhere; the log must contain their records. After each segment,
/// `progress` receives the number of records so far.
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
                // Only the last file is still written to.
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
        // A record that was deleted with its segment cannot be checked.
        if report.first.is_some_and(|first| head.number < first) {
            continue;
        }
        let what = format!(
            "record {} with the expected hash does not exist",
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
            // The line cannot be parsed, but may state a hash: the next line is
            // checked against that hash.
            if let Ok((body, stated)) = split(line) {
                before.hashes = [stated, chain(&before.hashes[0], body)];
            }
            before.number = before.number.map(|number| number + 1);
            return;
        }
    };
    let (body, stated) = match split(line) {
        Ok(parts) => parts,
        Err(_) => unreachable!("check_line has split the same line"),
    };
    // Records before the oldest segment may have been deleted, so the first
    // line is checked against the hash in its `prev`.
    if is_start && let Some(prev) = checked.prev {
        before.hashes = [prev; 2];
        if checked.head.number == 1 && prev != NONE {
            report.problem(
                path,
                number,
                "record 1 states that it follows another record",
            );
        }
    }
    let follows = before
        .hashes
        .iter()
        .find(|prev| chain(prev, body) == stated);
    let expected = before.number.map_or(first, |number| number + 1);
    if checked.head.number != expected {
        let what = format!(
            "found record {} where record {expected} is expected",
            checked.head.number
        );
        report.problem(path, number, what);
    } else if number == 1 && checked.head.number != first {
        report.problem(path, number, "the file is named after another record");
    } else if number == 1 && checked.prev.is_none() {
        report.problem(path, number, "the first record of the file has no `prev`");
    } else if follows.is_none() {
        let what = format!("record {expected} was changed after it was written");
        report.problem(path, number, what);
    } else if checked.prev.is_some_and(|prev| Some(&prev) != follows) {
        report.problem(path, number, "`prev` is not the previous record's hash");
    }
    // Continue even after a problem, from the hashes of this line, so that one
    // changed record is not reported for every line after it.
    let prev = follows.copied().unwrap_or(before.hashes[0]);
    *before = Before {
        number: Some(checked.head.number),
        hashes: [stated, chain(&prev, body)],
    };
    report.records += 1;
    report.first.get_or_insert(checked.head.number);
    report.head = Some(checked.head);
}
