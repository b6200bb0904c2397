//! Moves a change that fits in several positions to the position git chooses.
//!
//! A run of changed lines whose first line equals the line after it can move
//! one line down without changing the result; likewise upwards. Each run is
//! joined with the runs it can reach, and then aligned with a change of the
//! other text if possible. Otherwise a merge moves it down as far as possible,
//! and a diff for people moves it to where the indentation suggests.

use std::ops::Range;

use gix_imara_diff::{IndentHeuristic, IndentLevel, SliderHeuristic};

use super::Line;
use super::work::Work;

/// Width of a tab in the indentation of a line.
const TAB: u8 = 8;

/// Maximum number of bytes of a line that are read for its indentation.
const INDENTATION: usize = 256;

/// Work for each position whose indentation is examined: some lines before and
/// after it.
const LINES_AROUND: usize = 40;

/// Maximum number of positions whose indentation is examined.
const PLACES: usize = 100;

/// Chooses among the positions of a run that cannot be aligned with a change of
/// the other text.
pub(super) trait Preference {
    /// Returns the end of the run in its chosen position: between `highest_end`
    /// and the end of `lowest`.
    fn end_of(
        &mut self,
        lines: &[Line],
        lowest: Range<usize>,
        highest_end: usize,
        work: &mut Work,
    ) -> usize;
}

/// The lowest position, for merges.
pub(super) struct Lowest;

impl Preference for Lowest {
    fn end_of(&mut self, _: &[Line], lowest: Range<usize>, _: usize, _: &mut Work) -> usize {
        lowest.end
    }
}

/// The position that indentation suggests, for diffs that people read.
pub(super) struct Indented<F>(pub(super) F);

impl<'a, F: Fn(Line) -> &'a [u8]> Preference for Indented<F> {
    fn end_of(
        &mut self,
        lines: &[Line],
        lowest: Range<usize>,
        highest_end: usize,
        work: &mut Work,
    ) -> usize {
        let places = (lowest.end - highest_end).min(PLACES);
        if !work.spend(places * LINES_AROUND) {
            return lowest.end;
        }
        let indent = |line| {
            let start = self.0(line).iter().copied().take(INDENTATION);
            IndentLevel::for_ascii_line(start, TAB)
        };
        let run = lowest.start as u32..lowest.end as u32;
        IndentHeuristic::new(indent).best_slider_end(lines, run, highest_end as u32) as usize
    }
}

/// A run of changed lines, or the empty run between two unchanged lines. Both
/// texts have the same number of runs.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
}

/// Moves the runs of one text; `other` marks the changes of the other text.
pub(super) fn slide(
    lines: &[Line],
    changed: &mut [bool],
    other: &[bool],
    preference: &mut impl Preference,
    work: &mut Work,
) {
    let mut slider = Slider {
        run: Run::first(changed),
        opposite: Run::first(other),
        lines,
        changed,
        other,
    };
    loop {
        if !slider.run.is_empty() {
            slider.settle(preference, work);
        }
        if work.is_spent() || !slider.run.go_on(slider.changed) {
            return;
        }
        slider.opposite.go_on(other);
    }
}

struct Slider<'a> {
    lines: &'a [Line],
    changed: &'a mut [bool],
    run: Run,
    other: &'a [bool],
    /// The run of the other text in the same position.
    opposite: Run,
}

impl Slider<'_> {
    /// Moves the current run to its position.
    fn settle(&mut self, preference: &mut impl Preference, work: &mut Work) {
        let mut beside_other;
        let mut highest_end;
        loop {
            let len = self.run.len();
            while self.up(work) {}
            highest_end = self.run.end;
            beside_other = !self.opposite.is_empty();
            while self.down(work) {
                beside_other |= !self.opposite.is_empty();
            }
            if self.run.len() == len || work.is_spent() {
                break;
            }
        }
        if beside_other {
            while self.opposite.is_empty() && self.up(work) {}
        } else if self.run.end > highest_end {
            let lowest = self.run.start..self.run.end;
            let end = preference.end_of(self.lines, lowest, highest_end, work);
            while self.run.end > end && self.up(work) {}
        }
    }

    /// Counts the work for one line, and for the run of the other text that it
    /// passes.
    fn pay(&self, work: &mut Work) -> bool {
        work.spend(1 + self.opposite.len())
    }

    /// Moves the run one line up, if possible.
    fn up(&mut self, work: &mut Work) -> bool {
        let Run { start, end } = self.run;
        if start == 0 || self.lines[start - 1] != self.lines[end - 1] || !self.pay(work) {
            return false;
        }
        self.changed[start - 1] = true;
        self.changed[end - 1] = false;
        self.run = Run {
            start: start_of_run(self.changed, start - 1),
            end: end - 1,
        };
        self.opposite.go_back(self.other);
        true
    }

    /// Moves the run one line down, if possible.
    fn down(&mut self, work: &mut Work) -> bool {
        let Run { start, end } = self.run;
        if end == self.lines.len() || self.lines[start] != self.lines[end] || !self.pay(work) {
            return false;
        }
        self.changed[start] = false;
        self.changed[end] = true;
        self.run = Run {
            start: start + 1,
            end: end_of_run(self.changed, end + 1),
        };
        self.opposite.go_on(self.other);
        true
    }
}

impl Run {
    fn first(changed: &[bool]) -> Self {
        Self {
            start: 0,
            end: end_of_run(changed, 0),
        }
    }

    fn len(self) -> usize {
        self.end - self.start
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    fn go_on(&mut self, changed: &[bool]) -> bool {
        if self.end == changed.len() {
            return false;
        }
        self.start = self.end + 1;
        self.end = end_of_run(changed, self.start);
        true
    }

    fn go_back(&mut self, changed: &[bool]) {
        if self.start > 0 {
            self.end = self.start - 1;
            self.start = start_of_run(changed, self.end);
        }
    }
}

fn end_of_run(changed: &[bool], from: usize) -> usize {
    from + changed[from..]
        .iter()
        .take_while(|&&changed| changed)
        .count()
}

fn start_of_run(changed: &[bool], from: usize) -> usize {
    from - changed[..from]
        .iter()
        .rev()
        .take_while(|&&changed| changed)
        .count()
}
