//! Prints the places where two sides conflict, in columns or one below the other.

use std::ops::Range;

use anstyle::Style;
use elevo_merge::Lines;
use gix_imara_diff::{Algorithm, Diff, InternedInput};

use crate::client::Call;
use crate::client::review_sides::Sides;
use crate::output::styled_line::{StyledLine, differing};
use crate::output::{ADDED, ADDED_WORDS, FAINT, REMOVED, STRONG};

/// Lines of context before and after a place.
const AROUND: usize = 3;

/// One line of one side.
struct Cell {
    number: usize,
    sign: char,
    line: StyledLine,
}

/// Lines of a side before, at and after a place.
type Blocks = [Vec<Cell>; 3];

/// The lines of all versions.
struct Texts<'a> {
    base: Vec<&'a str>,
    ours: Vec<&'a str>,
    theirs: Vec<&'a str>,
}

/// Prints all places. `wide` is the number of columns for both sides next to each
/// other, if there are enough.
pub(crate) fn print_conflict_place(
    call: &mut Call,
    sides: &Sides,
    places: &[Lines],
    wide: Option<usize>,
    columns: Option<usize>,
) -> anyhow::Result<()> {
    let read = |side: &Option<bytes::Bytes>| {
        let bytes = side.as_deref().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let (base, ours, theirs) = (read(&sides.base), read(&sides.ours), read(&sides.theirs));
    let texts = Texts {
        base: base.lines().collect(),
        ours: ours.lines().collect(),
        theirs: theirs.lines().collect(),
    };
    for (at, place) in places.iter().enumerate() {
        call.output.line("")?;
        let heading = format!("{} of {}", at + 1, places.len());
        print_line(call, StyledLine::new(STRONG, &heading))?;
        match wide {
            Some(columns) => print_wide(call, &texts, place, columns)?,
            None => print_narrow(call, &texts, place, columns)?,
        }
    }
    Ok(())
}

fn print_narrow(
    call: &mut Call,
    texts: &Texts<'_>,
    place: &Lines,
    columns: Option<usize>,
) -> anyhow::Result<()> {
    let [base, ours, theirs] = headings(place);
    print_block(call, &base, [base_cells(texts, place)], columns)?;
    let blocks = side_cells(texts, place, Side::Ours);
    print_block(call, &ours, blocks, columns)?;
    let blocks = side_cells(texts, place, Side::Theirs);
    print_block(call, &theirs, blocks, columns)
}

fn print_wide(
    call: &mut Call,
    texts: &Texts<'_>,
    place: &Lines,
    columns: usize,
) -> anyhow::Result<()> {
    let [base, ours, theirs] = headings(place);
    print_block(call, &base, [base_cells(texts, place)], Some(columns))?;
    let width = (columns - 3) / 2;
    let (left, right) = (
        StyledLine::new(FAINT, &ours),
        StyledLine::new(FAINT, &theirs),
    );
    print_row(call, (left, right), width)?;
    let ours = side_cells(texts, place, Side::Ours);
    let theirs = side_cells(texts, place, Side::Theirs);
    for (left, right) in ours.into_iter().zip(theirs) {
        let rows = left.len().max(right.len());
        let (mut left, mut right) = (left.into_iter(), right.into_iter());
        for _ in 0..rows {
            let left = left.next().map(|cell| cell.wrap(width));
            let right = right.next().map(|cell| cell.wrap(width));
            let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
            let lines = left.len().max(right.len());
            for at in 0..lines {
                let part = |lines: &[StyledLine]| lines.get(at).cloned().unwrap_or_default();
                print_row(call, (part(&left), part(&right)), width)?;
            }
        }
    }
    Ok(())
}

fn print_row(
    call: &mut Call,
    (left, right): (StyledLine, StyledLine),
    width: usize,
) -> anyhow::Result<()> {
    let left = left.padded(&call.output, width);
    let bar = call.output.styled(FAINT, " │ ");
    let right = right.bytes(&call.output);
    Ok(call.output.line([left, bar, right].concat())?)
}

fn print_block<const N: usize>(
    call: &mut Call,
    heading: &str,
    blocks: [Vec<Cell>; N],
    columns: Option<usize>,
) -> anyhow::Result<()> {
    print_line(call, StyledLine::new(FAINT, heading))?;
    for cell in blocks.into_iter().flatten() {
        for line in cell.wrap(columns.unwrap_or(usize::MAX)) {
            print_line(call, line)?;
        }
    }
    Ok(())
}

fn headings(place: &Lines) -> [String; 3] {
    let lines = |range: &Range<u32>| match range.len() {
        0 => format!("nothing, before line {}", range.start + 1),
        1 => format!("line {}", range.start + 1),
        _ => format!("lines {}-{}", range.start + 1, range.end),
    };
    [
        format!("base: {}", lines(&place.base)),
        format!("the project's side: {}", lines(&place.ours)),
        format!("the workspace's side: {}", lines(&place.theirs)),
    ]
}

/// Width of line numbers.
const DIGITS: usize = 5;

impl Cell {
    fn plain(number: usize, text: &str) -> Self {
        Self {
            number,
            sign: ' ',
            line: StyledLine::new(Style::new(), text),
        }
    }

    /// Wraps the line, with the number and sign before the first part and blanks
    /// before the others.
    fn wrap(self, width: usize) -> Vec<StyledLine> {
        let before = DIGITS + 3;
        let lines = self.line.wrap(width.saturating_sub(before)).into_iter();
        let sign = match self.sign {
            '-' => REMOVED,
            '+' => ADDED,
            _ => Style::new(),
        };
        lines
            .enumerate()
            .map(|(at, rest)| {
                let mut line = StyledLine::default();
                match at {
                    0 => {
                        line.push(FAINT, &format!("{:>DIGITS$} ", self.number + 1));
                        line.push(sign, &format!("{} ", self.sign));
                    }
                    _ => line.push(Style::new(), &" ".repeat(before)),
                }
                line.append(rest);
                line
            })
            .collect()
    }
}

#[derive(Clone, Copy)]
enum Side {
    Ours,
    Theirs,
}

fn usize_range(range: &Range<u32>, all: usize) -> Range<usize> {
    let end = (range.end as usize).min(all);
    (range.start as usize).min(end)..end
}

/// Returns the lines of the base at a place, and marks those that either side
/// changed.
fn base_cells(texts: &Texts<'_>, place: &Lines) -> Vec<Cell> {
    let range = usize_range(&place.base, texts.base.len());
    let before = &texts.base[range.clone()];
    let removed_by = |side: &[&str], range: &Range<u32>| {
        let after = &side[usize_range(range, side.len())];
        let compared = Compared::new(before, after);
        (0..before.len())
            .map(|at| compared.diff.is_removed(at as u32))
            .collect::<Vec<_>>()
    };
    let ours = removed_by(&texts.ours, &place.ours);
    let theirs = removed_by(&texts.theirs, &place.theirs);
    let cells = before.iter().enumerate();
    cells
        .map(|(at, text)| match ours[at] || theirs[at] {
            true => Cell {
                number: range.start + at,
                sign: '-',
                line: StyledLine::new(REMOVED, text),
            },
            false => Cell::plain(range.start + at, text),
        })
        .collect()
}

/// Returns the lines of a side at a place with context, and marks those that
/// the side changed.
fn side_cells(texts: &Texts<'_>, place: &Lines, side: Side) -> Blocks {
    let (all, range) = match side {
        Side::Ours => (&texts.ours, &place.ours),
        Side::Theirs => (&texts.theirs, &place.theirs),
    };
    let range = usize_range(range, all.len());
    let base = &texts.base[usize_range(&place.base, texts.base.len())];
    let around = |range: Range<usize>| {
        let cells = range.map(|at| Cell::plain(at, all[at]));
        cells.collect::<Vec<_>>()
    };
    let before = around(range.start.saturating_sub(AROUND)..range.start);
    let after = around(range.end..(range.end + AROUND).min(all.len()));
    let compared = Compared::new(base, &all[range.clone()]);
    let inside = (0..range.len()).map(|at| compared.cell(range.start, at));
    [before, inside.collect(), after]
}

/// A comparison of the lines of a side with those of the base.
struct Compared<'a> {
    before: &'a [&'a str],
    after: &'a [&'a str],
    diff: Diff,
}

impl<'a> Compared<'a> {
    fn new(before: &'a [&'a str], after: &'a [&'a str]) -> Self {
        let mut input = InternedInput::default();
        input.update_before(before.iter().copied());
        input.update_after(after.iter().copied());
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        Self {
            before,
            after,
            diff,
        }
    }

    /// A line of the side, with its changed words marked.
    fn cell(&self, start: usize, at: usize) -> Cell {
        let (number, text) = (start + at, self.after[at]);
        if !self.diff.is_added(at as u32) {
            return Cell::plain(number, text);
        }
        let mut hunks = self.diff.hunks();
        let hunk = hunks.find(|hunk| hunk.after.contains(&(at as u32)));
        let old = hunk
            .filter(|hunk| hunk.before.len() == hunk.after.len())
            .map(|hunk| self.before[hunk.before.start as usize + at - hunk.after.start as usize]);
        let words = old.and_then(|old| differing(old, text));
        let words = words.map_or(Vec::new(), |(_, added)| added);
        Cell {
            number,
            sign: '+',
            line: StyledLine::with_words(text, &words, (ADDED, ADDED_WORDS)),
        }
    }
}

pub(crate) fn print_line(call: &mut Call, line: StyledLine) -> anyhow::Result<()> {
    let bytes = line.bytes(&call.output);
    Ok(call.output.line(bytes)?)
}
