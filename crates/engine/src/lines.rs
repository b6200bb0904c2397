//! Compares texts line by line, with a bound on the work.
//!
//! Finds common lines as git's histogram diff does. A diff that exceeds its
//! bound is finished by a coarser algorithm: the result is still correct, in
//! time that grows with the number of lines, but may have fewer common lines.

mod budget;
mod coarse;
mod histogram;
mod slide;
mod work;

use std::ops::Range;

use gix_imara_diff::InternedInput;

use histogram::Histogram;
use slide::{Indented, Lowest, slide};

pub use budget::LineBudget;
pub use work::Work;

/// A line with its ending, as a number: equal lines have equal numbers. The last
/// line of a text may have no ending.
pub type Line = gix_imara_diff::Token;

/// A range of lines in one text that replaces a range in the other. Between two
/// changes there is at least one line that both texts have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The lines of the first text; empty if lines were only added.
    pub before: Range<usize>,
    /// The lines of the second text; empty if lines were only removed.
    pub after: Range<usize>,
}

/// Marks the lines that the texts do not have in common.
struct Changed {
    before: Vec<bool>,
    after: Vec<bool>,
}

/// Returns the changes that turn `before` into `after`, in the positions that
/// git's merge uses. Every [`Line`] is a number below `distinct`.
pub fn diff(distinct: usize, before: &[Line], after: &[Line], work: &mut Work) -> Vec<Change> {
    let mut changed = Histogram::new(distinct, before, after).run(work);
    slide(
        before,
        &mut changed.before,
        &changed.after,
        &mut Lowest,
        work,
    );
    slide(
        after,
        &mut changed.after,
        &changed.before,
        &mut Lowest,
        work,
    );
    changed.into_changes().collect()
}

/// Two texts, split into lines.
pub struct TwoTexts<'a> {
    lines: InternedInput<&'a [u8]>,
}

impl<'a> TwoTexts<'a> {
    /// Splits both texts into lines.
    pub fn new(before: &'a [u8], after: &'a [u8]) -> Self {
        Self {
            lines: InternedInput::new(before, after),
        }
    }

    /// The lines of the first text.
    pub fn before(&self) -> &[Line] {
        &self.lines.before
    }

    /// The lines of the second text.
    pub fn after(&self) -> &[Line] {
        &self.lines.after
    }

    /// Returns the bytes of a line, with its ending.
    pub fn line(&self, line: Line) -> &'a [u8] {
        self.lines.interner[line]
    }

    /// Returns the changes that turn the first text into the second, in the
    /// positions that a person expects.
    pub fn changes(&self, work: &mut Work) -> impl Iterator<Item = Change> + use<> {
        let mut changed = self.changed(work);
        let mut preference = Indented(|line| self.line(line));
        let Changed { before, after } = &mut changed;
        slide(self.after(), after, before, &mut preference, work);
        slide(self.before(), before, after, &mut preference, work);
        changed.into_changes()
    }

    /// Returns the numbers of lines added and removed.
    pub fn count(&self, work: &mut Work) -> (u64, u64) {
        let changed = self.changed(work);
        let count = |lines: &[bool]| lines.iter().filter(|changed| **changed).count() as u64;
        (count(&changed.after), count(&changed.before))
    }

    fn changed(&self, work: &mut Work) -> Changed {
        let distinct = self.lines.interner.num_tokens() as usize;
        Histogram::new(distinct, self.before(), self.after()).run(work)
    }
}

impl Changed {
    fn into_changes(self) -> impl Iterator<Item = Change> {
        let (mut before, mut after) = (0, 0);
        std::iter::from_fn(move || {
            loop {
                let change = Change {
                    before: before..end_of_run(&self.before, before),
                    after: after..end_of_run(&self.after, after),
                };
                // A common line follows, or the end.
                (before, after) = (change.before.end + 1, change.after.end + 1);
                if !change.before.is_empty() || !change.after.is_empty() {
                    return Some(change);
                }
                if before > self.before.len() {
                    return None;
                }
            }
        })
    }
}

/// Returns the first unchanged line at or after `start`.
fn end_of_run(changed: &[bool], start: usize) -> usize {
    let rest = changed.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|&&changed| changed).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the first text with the changes applied.
    fn changed(texts: &TwoTexts<'_>, work: &mut Work) -> Vec<Line> {
        let mut result = Vec::new();
        let mut done = 0;
        for change in texts.changes(work) {
            result.extend(&texts.before()[done..change.before.start]);
            result.extend(&texts.after()[change.after]);
            done = change.before.end;
        }
        result.extend(&texts.before()[done..]);
        result
    }

    fn some_text() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            Just("\n"),
            Just("a\n"),
            Just("b\n"),
            Just("\tc\n"),
            Just("d")
        ];
        let lines = proptest::collection::vec(line, 0..60);
        lines.prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn changes_turn_the_first_text_into_the_second_with_any_amount_of_work(
            before in some_text(),
            after in some_text(),
            lines in prop_oneof![0..500u64, Just(Work::ONE_DIFF)],
        ) {
            let texts = TwoTexts::new(before.as_bytes(), after.as_bytes());
            prop_assert_eq!(changed(&texts, &mut Work::new(lines)), texts.after());
            let (added, removed) = texts.count(&mut Work::new(lines));
            let kept = texts.before().len() as u64 - removed;
            prop_assert_eq!(kept + added, texts.after().len() as u64);
        }
    }

    /// Returns a text of `bytes` bytes in lines of five, with at most `repeats`
    /// different lines.
    fn short_lines(bytes: usize, repeats: usize, change_every: usize) -> Vec<u8> {
        const DIGITS: &[u8; 64] =
            b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/";
        let line = |at: usize| {
            let number = at % repeats
                + if at % change_every == change_every - 1 {
                    1 << 23
                } else {
                    0
                };
            let digit = |place: u32| DIGITS[number >> (6 * place) & 63];
            [digit(3), digit(2), digit(1), digit(0), b'\n']
        };
        (0..bytes / 5).flat_map(line).collect()
    }

    /// Maximum work of a diff with this number of lines: the bound, one search
    /// that began below it, and the sorts of the coarse diff.
    fn most_work(texts: &TwoTexts<'_>) -> u64 {
        let lines = (texts.before().len() + texts.after().len()) as u64;
        Work::ONE_DIFF + 64 * lines + lines * u64::from(lines.ilog2())
    }

    #[test]
    fn hostile_texts_cost_a_bounded_amount_of_work() {
        let whole = 16 << 20;
        let never = usize::MAX;
        for (bytes, repeats) in [
            (whole, 1 << 22),
            (1 << 20, 60),
            (1 << 20, 100),
            (1 << 20, 1),
        ] {
            let before = short_lines(bytes, repeats, never);
            let after = short_lines(bytes, repeats, 2);
            let texts = TwoTexts::new(&before, &after);
            let mut work = Work::of_one_diff();
            let (added, removed) = texts.count(&mut work);
            let lines = (bytes / 5) as u64;
            assert!(
                work.done() <= most_work(&texts),
                "{} of {lines}",
                work.done()
            );
            assert_eq!(added, removed);
            assert!((lines / 2..=lines).contains(&added), "{added} of {lines}");
        }
    }

    /// Checks that a diff within its bound finds the common lines: a diff that
    /// gave up at once would stay within the bound too.
    #[test]
    fn every_other_line_of_a_large_text_is_found_to_be_common() {
        let before = short_lines(1 << 20, 1 << 22, usize::MAX);
        let after = short_lines(1 << 20, 1 << 22, 2);
        let texts = TwoTexts::new(&before, &after);
        let changes: Vec<_> = texts.changes(&mut Work::of_one_diff()).collect();
        assert_eq!(changes.len(), texts.before().len() / 2);
        assert!(changes.iter().all(|change| change.before == change.after));
    }
}
