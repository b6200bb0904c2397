//! Lines of text in several styles, wrapped to columns, and the words that
//! differ between two lines.

use std::ops::Range;

use anstyle::Style;
use gix_imara_diff::{Algorithm, Diff, InternedInput};
use unicode_width::UnicodeWidthChar;

use crate::output::Output;

/// Longer lines are not compared word by word.
const LONGEST: usize = 1000;

const TAB: usize = 4;

/// A line that is safe to print to a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyledLine(Vec<(Style, String)>);

impl StyledLine {
    /// Creates a line in one style.
    pub(crate) fn new(style: Style, text: &str) -> Self {
        let mut line = Self::default();
        line.push(style, text);
        line
    }

    /// Appends text in a style.
    pub(crate) fn push(&mut self, style: Style, text: &str) {
        let mut clean = String::with_capacity(text.len());
        let mut column = self.width();
        for letter in text.trim_end_matches(['\n', '\r']).chars() {
            match letter {
                '\t' => {
                    let blanks = TAB - column % TAB;
                    clean.extend(std::iter::repeat_n(' ', blanks));
                    column += blanks;
                    continue;
                }
                letter if is_harmful(letter) => clean.push('\u{fffd}'),
                letter => clean.push(letter),
            }
            column += width(letter);
        }
        if !clean.is_empty() {
            self.0.push((style, clean));
        }
    }

    /// Appends another line.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Creates a line with some parts in a second style.
    pub(crate) fn with_words(
        text: &str,
        words: &[Range<usize>],
        (style, of_words): (Style, Style),
    ) -> Self {
        let mut line = Self::default();
        let mut done = 0;
        for range in words {
            line.push(style, &text[done..range.start]);
            line.push(of_words, &text[range.clone()]);
            done = range.end;
        }
        line.push(style, &text[done..]);
        line
    }

    /// Number of columns of the line.
    pub(crate) fn width(&self) -> usize {
        let letters = self.0.iter().flat_map(|(_, text)| text.chars());
        letters.map(width).sum()
    }

    /// Splits the line into at least one line of at most `limit` columns.
    pub(crate) fn wrap(self, limit: usize) -> Vec<Self> {
        let mut lines = vec![Self::default()];
        let mut used = 0;
        for (style, text) in self.0 {
            let mut part = String::new();
            for letter in text.chars() {
                if used + width(letter) > limit.max(2) {
                    put(&mut lines, style, std::mem::take(&mut part));
                    lines.push(Self::default());
                    used = 0;
                }
                part.push(letter);
                used += width(letter);
            }
            put(&mut lines, style, part);
        }
        lines
    }

    /// Returns the line as it is printed.
    pub(crate) fn bytes(&self, output: &Output) -> Vec<u8> {
        let parts = self.0.iter();
        parts
            .flat_map(|(style, text)| match *style == Style::new() {
                true => text.clone().into_bytes(),
                false => output.styled(*style, text),
            })
            .collect()
    }

    /// Returns the line as it is printed, with blanks up to a width.
    pub(crate) fn padded(&self, output: &Output, width: usize) -> Vec<u8> {
        let mut bytes = self.bytes(output);
        let blanks = width.saturating_sub(self.width());
        bytes.extend(std::iter::repeat_n(b' ', blanks));
        bytes
    }
}

fn put(lines: &mut [StyledLine], style: Style, part: String) {
    if let (Some(last), false) = (lines.last_mut(), part.is_empty()) {
        last.0.push((style, part));
    }
}

fn width(letter: char) -> usize {
    letter.width().unwrap_or(1)
}

/// Whether a character controls the terminal or reverses the direction of text.
fn is_harmful(letter: char) -> bool {
    let turns_text_around = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns_text_around
}

/// Byte ranges of two lines that differ.
pub(crate) type Words = (Vec<Range<usize>>, Vec<Range<usize>>);

pub(crate) fn differing(before: &str, after: &str) -> Option<Words> {
    if before.len().max(after.len()) > LONGEST {
        return None;
    }
    let (old, new) = (words(before), words(after));
    let mut input = InternedInput::default();
    input.update_before(old.iter().map(|range| &before[range.clone()]));
    input.update_after(new.iter().map(|range| &after[range.clone()]));
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_no_heuristic(&input);
    let pick = |words: &[Range<usize>], is_other: &dyn Fn(u32) -> bool| {
        let words = words.iter().enumerate();
        let others = words.filter(|(at, _)| is_other(*at as u32));
        joined(others.map(|(_, range)| range.clone()))
    };
    let removed = pick(&old, &|at| diff.is_removed(at));
    let added = pick(&new, &|at| diff.is_added(at));
    let length = |ranges: &[Range<usize>]| ranges.iter().map(ExactSizeIterator::len).sum::<usize>();
    let (visible, other) = (
        before.len() + after.len(),
        length(&removed) + length(&added),
    );
    (other * 10 <= visible * 7).then_some((removed, added))
}

/// Splits text into words, runs of blanks, and single other characters.
fn words(text: &str) -> Vec<Range<usize>> {
    let class = |letter: char| match letter {
        letter if letter.is_alphanumeric() || letter == '_' => 0,
        letter if letter.is_whitespace() => 1,
        _ => 2,
    };
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut before = 2;
    for (at, letter) in text.char_indices() {
        let (now, end) = (class(letter), at + letter.len_utf8());
        match found.last_mut() {
            Some(last) if now == before && now != 2 => last.end = end,
            _ => found.push(at..end),
        }
        before = now;
    }
    found
}

/// Joins adjacent ranges.
fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match found.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => found.push(range),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_found() {
        let (before, after) = ("let x = old(1);", "let x = newer(1);");
        let (removed, added) = differing(before, after).unwrap();
        assert_eq!(&before[removed[0].clone()], "old");
        assert_eq!(&after[added[0].clone()], "newer");
        assert!(differing("one", "two").is_none());
        let (_, added) = differing("größe = 1", "größe = 2").unwrap();
        assert_eq!(added.first(), Some(&(10..11)));
    }

    #[test]
    fn lines_are_cut_by_columns_and_lose_nothing() {
        let line = StyledLine::new(Style::new(), "ab\t漢字cd");
        assert_eq!(line.width(), 10);
        let wrapped = line.wrap(5);
        let texts: Vec<_> = wrapped.iter().map(|line| line.0[0].1.clone()).collect();
        assert_eq!(texts, ["ab  ", "漢字c", "d"]);
        assert_eq!(StyledLine::default().wrap(10).len(), 1);
    }

    #[test]
    fn untrusted_text_is_made_harmless() {
        let line = StyledLine::new(Style::new(), "a\x1b[2Jb\u{202e}c\r\n");
        assert_eq!(line.0[0].1, "a\u{fffd}[2Jb\u{fffd}c");
    }
}
