//! Where a change may stand in several places, puts it where git puts it.
//!
//! A run of changed lines whose first line equals the line after it can as well
//! stand one line lower; likewise upwards. Each run is joined with those that it
//! can reach, then stands beside a change of the other text if it can, else as
//! low as it can. (git's indent heuristic is for showing diffs: a merge does not
//! use it.)

use super::lines::Line;
use super::work::Work;

/// A run of changed lines, or the empty one between two lines that did not
/// change. Both texts have equally many.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
}

/// Moves the runs of one text; `other` is what changed in the other.
pub(super) fn slide(lines: &[Line], changed: &mut [bool], other: &[bool], work: &mut Work) {
    let mut slider = Slider {
        run: Run::first(changed),
        opposite: Run::first(other),
        lines,
        changed,
        other,
    };
    loop {
        if !slider.run.is_empty() {
            slider.settle(work);
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
    /// The run of the other text that is in the same place.
    opposite: Run,
}

impl Slider<'_> {
    /// Puts the present run where it belongs.
    fn settle(&mut self, work: &mut Work) {
        let mut beside_other;
        loop {
            let len = self.run.len();
            while self.up(work) {}
            beside_other = !self.opposite.is_empty();
            while self.down(work) {
                beside_other |= !self.opposite.is_empty();
            }
            if self.run.len() == len || work.is_spent() {
                break;
            }
        }
        while beside_other && self.opposite.is_empty() && self.up(work) {}
    }

    /// For one line, and for the run of the other text that is passed.
    fn pay(&self, work: &mut Work) -> bool {
        work.spend(1 + self.opposite.len())
    }

    /// One line up, if that can be.
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

    /// One line down, if that can be.
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
