//! Finds the common lines of two texts by git's histogram algorithm.
//!
//! Of all runs of common lines, the one with the rarest line is chosen (of
//! equally rare ones the longest, of equally long ones the first). The parts
//! before and after it are searched in the same way. People recognize a place
//! by its rarest line.
//!
//! The available crates choose other runs than git, and cannot be stopped; with
//! repeated lines their time is quadratic.

use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff};

use super::coarse::coarse;
use super::work::Work;
use super::{Changed, Line};

/// A line that occurs more often than this in a part does not identify a place.
const TOO_COMMON: u32 = 65;

/// Number of lines of a text in one window of the Myers diff.
const WINDOW: usize = 1 << 15;

/// Maximum work counted for each line of a window.
const MOST_PER_LINE: usize = 1 << 10;

/// Marks the absence of a line.
const NONE: u32 = u32::MAX;

/// A part of both texts in which common lines are searched.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) before: Range<usize>,
    pub(super) after: Range<usize>,
}

pub(super) struct Histogram<'a> {
    before: &'a [Line],
    after: &'a [Line],
    changed: Changed,
    /// Number of occurrences of a line in the current part of `before`.
    count: Vec<u32>,
    /// First occurrence of a line.
    first: Vec<u32>,
    /// For each position in `before`, the next occurrence of its line.
    next: Vec<u32>,
}

/// Result of a search.
enum Found {
    Run(Part),
    NothingInCommon,
    OnlyCommonLines,
    TooMuchWork,
}

/// The best run so far.
struct Best {
    run: Option<Part>,
    len: usize,
    rarity: u32,
}

impl<'a> Histogram<'a> {
    pub(super) fn new(distinct: usize, before: &'a [Line], after: &'a [Line]) -> Self {
        Self {
            before,
            after,
            changed: Changed {
                before: vec![false; before.len()],
                after: vec![false; after.len()],
            },
            count: vec![0; distinct],
            first: vec![NONE; distinct],
            next: vec![NONE; before.len()],
        }
    }

    pub(super) fn run(mut self, work: &mut Work) -> Changed {
        let mut parts = vec![Part {
            before: 0..self.before.len(),
            after: 0..self.after.len(),
        }];
        while let Some(part) = parts.pop() {
            if part.before.is_empty() || part.after.is_empty() {
                self.mark(&part);
                continue;
            }
            match self.search(&part, work) {
                Found::Run(run) => parts.extend(around(&part, &run)),
                Found::NothingInCommon => self.mark(&part),
                Found::OnlyCommonLines => self.myers(&part, work),
                Found::TooMuchWork => self.coarse(&part, work),
            }
        }
        self.changed
    }

    fn mark(&mut self, part: &Part) {
        self.changed.before[part.before.clone()].fill(true);
        self.changed.after[part.after.clone()].fill(true);
    }

    fn coarse(&mut self, part: &Part, work: &mut Work) {
        coarse(self.before, self.after, part, &mut self.changed, work);
    }

    fn search(&mut self, part: &Part, work: &mut Work) -> Found {
        if !work.spend(part.before.len() + part.after.len()) {
            return Found::TooMuchWork;
        }
        self.count_lines(part);
        let found = self.rarest_run(part, work);
        for &line in &self.before[part.before.clone()] {
            self.count[line.0 as usize] = 0;
        }
        found
    }

    fn count_lines(&mut self, part: &Part) {
        for at in part.before.clone().rev() {
            let line = self.before[at].0 as usize;
            let seen = self.count[line] > 0;
            self.next[at] = if seen { self.first[line] } else { NONE };
            self.first[line] = at as u32;
            self.count[line] += 1;
        }
    }

    fn rarest_run(&self, part: &Part, work: &mut Work) -> Found {
        let mut best = Best {
            run: None,
            len: 1,
            rarity: TOO_COMMON,
        };
        let mut in_common = false;
        let mut at = part.after.start;
        while at < part.after.end {
            let count = self.count[self.after[at].0 as usize];
            in_common |= count > 0;
            if count == 0 || count > best.rarity {
                at += 1;
                continue;
            }
            at = self.runs_through(part, at, &mut best, work);
            if work.is_spent() {
                return Found::TooMuchWork;
            }
        }
        match best.run {
            _ if !in_common => Found::NothingInCommon,
            Some(run) if best.rarity < TOO_COMMON => Found::Run(run),
            _ => Found::OnlyCommonLines,
        }
    }

    /// Tries each run that contains the line at `at` of `after`; returns the
    /// position to continue at.
    fn runs_through(&self, part: &Part, at: usize, best: &mut Best, work: &mut Work) -> usize {
        let mut go_on = at + 1;
        let mut place = self.first[self.after[at].0 as usize];
        while place != NONE {
            let run = self.run_through(part, place as usize, at);
            work.spend(run.before.len());
            go_on = go_on.max(run.after.end);
            let end = run.before.end as u32;
            best.offer(self.rarity(&run), run);
            place = self.next[place as usize];
            while place != NONE && place < end {
                place = self.next[place as usize];
            }
        }
        go_on
    }

    /// Returns the longest run of common lines through a pair of equal lines.
    fn run_through(&self, part: &Part, place: usize, at: usize) -> Part {
        let (before, after) = (self.before, self.after);
        let back = before[part.before.start..place]
            .iter()
            .rev()
            .zip(after[part.after.start..at].iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        let forth = before[place..part.before.end]
            .iter()
            .zip(&after[at..part.after.end])
            .take_while(|(a, b)| a == b)
            .count();
        Part {
            before: place - back..place + forth,
            after: at - back..at + forth,
        }
    }

    /// Number of occurrences of the rarest line of a run.
    fn rarity(&self, run: &Part) -> u32 {
        let lines = &self.before[run.before.clone()];
        let counts = lines.iter().map(|line| self.count[line.0 as usize]);
        counts.min().unwrap_or(TOO_COMMON)
    }

    /// Finds common lines that all repeat, with the fewest changes. A large
    /// part is split into windows: the search cannot be stopped, and its time
    /// is quadratic in the number of changes.
    fn myers(&mut self, part: &Part, work: &mut Work) {
        let windows = part.before.len().max(part.after.len()).div_ceil(WINDOW);
        for i in 0..windows {
            let window = Part {
                before: nth_of(&part.before, i, windows),
                after: nth_of(&part.after, i, windows),
            };
            if work.is_spent() {
                self.coarse(&window, work);
            } else {
                self.myers_of_window(&window, work);
            }
        }
    }

    fn myers_of_window(&mut self, part: &Part, work: &mut Work) {
        let (before, after, distinct) = self.renumbered(part);
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::Myers, &before, &after, distinct);
        for (i, at) in part.before.clone().enumerate() {
            self.changed.before[at] = diff.is_removed(i as u32);
        }
        for (i, at) in part.after.clone().enumerate() {
            self.changed.after[at] = diff.is_added(i as u32);
        }
        let lines = before.len() + after.len();
        let changed = (diff.count_removals() + diff.count_additions()) as usize;
        work.spend(lines + (changed * changed).min(lines * MOST_PER_LINE));
    }

    /// Returns the lines of a part, numbered from 0, so that the cost does not
    /// depend on the number of other lines.
    fn renumbered(&mut self, part: &Part) -> (Vec<Line>, Vec<Line>, u32) {
        let mut distinct = 0;
        let count = &mut self.count;
        let mut number = |line: &Line| {
            let number = &mut count[line.0 as usize];
            if *number == 0 {
                distinct += 1;
                *number = distinct;
            }
            Line::from(*number - 1)
        };
        let (before, after) = (
            &self.before[part.before.clone()],
            &self.after[part.after.clone()],
        );
        let renumbered = (
            before.iter().map(&mut number).collect(),
            after.iter().map(&mut number).collect(),
            distinct,
        );
        for line in before.iter().chain(after) {
            count[line.0 as usize] = 0;
        }
        renumbered
    }
}

impl Best {
    fn offer(&mut self, rarity: u32, run: Part) {
        if run.before.len() > self.len || rarity < self.rarity {
            self.len = run.before.len();
            self.rarity = rarity;
            self.run = Some(run);
        }
    }
}

/// Returns the remainders of a part after and before a run.
fn around(part: &Part, run: &Part) -> [Part; 2] {
    [
        Part {
            before: run.before.end..part.before.end,
            after: run.after.end..part.after.end,
        },
        Part {
            before: part.before.start..run.before.start,
            after: part.after.start..run.after.start,
        },
    ]
}

/// Returns piece `i` of a range split into `n`.
fn nth_of(range: &Range<usize>, i: usize, n: usize) -> Range<usize> {
    let at = |i| range.start + range.len() * i / n;
    at(i)..at(i + 1)
}
