//! Merges texts line by line, as git does.
//!
//! A clean merge of git gives the same bytes here, and a conflict of git is a
//! conflict here, with two exceptions:
//!
//! - *Line endings.* If all lines of each version end alike, the ending is
//!   merged separately from the content: if one side only turned LF into CRLF,
//!   the other side's lines are kept and end in CRLF, where git reports a
//!   conflict. A file with mixed endings is never normalised: its endings are
//!   part of the lines.
//! - *Work.* A diff that exceeds a fixed amount of work is finished by a coarser
//!   algorithm, which may find fewer common lines.
//!
//! A missing newline at the end of a file is part of the last line.

mod carried;
mod combine;
mod endings;
mod lines;
mod markers;
mod suggest;

use elevo_engine::lines::{Work, diff};

use crate::driver::{Conflicted, Driver, Hunk, Lines, Merged, Place, Versions, Winner};
use combine::{Outcome, Region, combine};
use endings::UniformEndings;
use lines::Texts;

pub use carried::carried_lines;
pub use markers::{Labels, MarkerStyle, has_markers, marked};

/// Length of the prefix that is searched for NUL bytes, as in git.
const LOOKED_AT: usize = 8000;

/// Larger files are not split into lines, as in git.
const MAX_BYTES: usize = 1 << 30;

/// The driver for texts. It claims every file, so it comes last. It returns
/// [`Merged::NotMine`] for binary files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text;

impl Driver for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn claims(&self, _file_name: &[u8]) -> bool {
        true
    }

    fn merge(&self, versions: &Versions<'_>) -> Merged {
        let base = versions.base.unwrap_or_default();
        let (ours, theirs) = (versions.ours, versions.theirs);
        if [base, ours, theirs].into_iter().any(is_binary) {
            return Merged::NotMine;
        }
        if ours == theirs || base == theirs {
            return Merged::Clean(ours.to_vec());
        }
        if base == ours {
            return Merged::Clean(theirs.to_vec());
        }
        let alike = UniformEndings::new(base, ours, theirs);
        let texts = Texts::new(&alike.base, &alike.ours, &alike.theirs);
        finish(&texts, &regions(&texts))
    }

    fn merge_for(&self, versions: &Versions<'_>, winner: Winner) -> Option<Vec<u8>> {
        match self.merge(versions) {
            Merged::NotMine => return None,
            Merged::Clean(bytes) => return Some(bytes),
            Merged::Conflict(_) => {}
        }
        let base = versions.base.unwrap_or_default();
        let alike = UniformEndings::new(base, versions.ours, versions.theirs);
        let texts = Texts::new(&alike.base, &alike.ours, &alike.theirs);
        Some(won(&texts, &regions(&texts), winner))
    }
}

/// The file with the winner's lines wherever both sides changed the same place.
fn won(texts: &Texts<'_>, regions: &[Region], winner: Winner) -> Vec<u8> {
    let mut result = Vec::new();
    let mut done = 0;
    for region in regions {
        texts.put(&mut result, &texts.base[done..region.base.start]);
        match (region.outcome, winner) {
            (Outcome::Ours, _) | (Outcome::Conflict, Winner::Ours) => {
                texts.put(&mut result, &texts.ours[region.ours.clone()]);
            }
            (Outcome::Theirs, _) | (Outcome::Conflict, Winner::Theirs) => {
                texts.put(&mut result, &texts.theirs[region.theirs.clone()]);
            }
        }
        done = region.base.end;
    }
    texts.put(&mut result, &texts.base[done..]);
    result
}

/// Whether git would treat the file as binary, or as too large.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.len() > MAX_BYTES || bytes[..bytes.len().min(LOOKED_AT)].contains(&0)
}

/// The changes of both sides, in the order of the file.
fn regions(texts: &Texts<'_>) -> Vec<Region> {
    // Each side has its own budget of work; with a shared one, the result would
    // depend on the order of the sides.
    let distinct = texts.distinct();
    let ours = diff(distinct, &texts.base, &texts.ours, &mut Work::of_one_diff());
    let theirs = diff(
        distinct,
        &texts.base,
        &texts.theirs,
        &mut Work::of_one_diff(),
    );
    combine(texts, &ours, &theirs)
}

/// Returns the merged file if nothing conflicts; else the conflicts, and a file
/// with a choice for each.
fn finish(texts: &Texts<'_>, regions: &[Region]) -> Merged {
    let mut result = Vec::new();
    let mut hunks = Vec::new();
    let mut choices = suggest::Choices::default();
    let mut done = 0;
    for region in regions {
        texts.put(&mut result, &texts.base[done..region.base.start]);
        match region.outcome {
            Outcome::Ours => texts.put(&mut result, &texts.ours[region.ours.clone()]),
            Outcome::Theirs => texts.put(&mut result, &texts.theirs[region.theirs.clone()]),
            Outcome::Conflict => {
                choices.put(texts, region, &mut result);
                hunks.push(hunk(texts, &region.narrowed(texts)));
            }
        }
        done = region.base.end;
    }
    texts.put(&mut result, &texts.base[done..]);
    if hunks.is_empty() {
        return Merged::Clean(result);
    }
    Merged::Conflict(Conflicted {
        hunks,
        suggestion: result,
        reason: choices.reason(),
    })
}

fn hunk(texts: &Texts<'_>, region: &Region) -> Hunk {
    let some = |lines: &[lines::Line]| (!lines.is_empty()).then(|| texts.bytes(lines));
    let numbers = |range: &std::ops::Range<usize>| range.start as u32..range.end as u32;
    Hunk {
        place: Place::Lines(Lines {
            base: numbers(&region.base),
            ours: numbers(&region.ours),
            theirs: numbers(&region.theirs),
        }),
        base: some(&texts.base[region.base.clone()]),
        ours: some(&texts.ours[region.ours.clone()]),
        theirs: some(&texts.theirs[region.theirs.clone()]),
    }
}
