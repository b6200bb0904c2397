//! Prints patches: for people in colours with the differing words marked, for
//! programs unchanged.

use anstyle::Style;
use gix_imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};

use crate::output::styled_line::{StyledLine, differing};
use crate::output::{
    ADDED, ADDED_WORDS, Output, OutputError, PLACE, REMOVED, REMOVED_WORDS, STRONG,
};

/// Maximum number of consecutive lines that are compared in pairs.
const MOST: usize = 100;

/// Prints a patch: to a terminal without control characters, otherwise
/// unchanged.
pub(crate) fn print_patch(output: &mut Output, patch: &[u8]) -> Result<(), OutputError> {
    if !output.is_terminal() && !output.has_colour() {
        return output.bytes(patch);
    }
    let text = String::from_utf8_lossy(patch);
    let mut changed = Changed::default();
    let mut in_hunk = false;
    for line in text.lines() {
        in_hunk = !line.starts_with("diff ") && (in_hunk || line.starts_with("@@"));
        match (in_hunk, line.as_bytes().first()) {
            (true, Some(b'-')) if changed.added.is_empty() => changed.removed.push(line),
            (true, Some(b'+')) => changed.added.push(line),
            (true, Some(b'-')) => {
                changed.print(output)?;
                changed.removed.push(line);
            }
            (_, first) => {
                changed.print(output)?;
                let style = match (in_hunk, first) {
                    (false, _) => STRONG,
                    (true, Some(b'@')) => PLACE,
                    (true, _) => Style::new(),
                };
                print_line(output, &StyledLine::new(style, line))?;
            }
        }
    }
    changed.print(output)
}

fn print_line(output: &mut Output, line: &StyledLine) -> Result<(), OutputError> {
    let bytes = line.bytes(output);
    output.line(bytes)
}

/// Consecutive removed lines and the added lines that replace them.
#[derive(Default)]
struct Changed<'a> {
    removed: Vec<&'a str>,
    added: Vec<&'a str>,
}

impl Changed<'_> {
    fn print(&mut self, output: &mut Output) -> Result<(), OutputError> {
        let (removed, added) = (
            std::mem::take(&mut self.removed),
            std::mem::take(&mut self.added),
        );
        let is_paired = removed.len() == added.len() && removed.len() <= MOST;
        let pairs: Vec<_> = match is_paired {
            true => {
                let pairs = removed.iter().zip(&added);
                // The first byte is the sign.
                pairs
                    .map(|(old, new)| differing(&old[1..], &new[1..]))
                    .collect()
            }
            false => Vec::new(),
        };
        let pair = |at: usize| pairs.get(at).and_then(Option::as_ref);
        for (at, line) in removed.iter().enumerate() {
            let words = pair(at).map_or(&[][..], |(old, _)| old);
            print_changed(output, line, words, (REMOVED, REMOVED_WORDS))?;
        }
        for (at, line) in added.iter().enumerate() {
            let words = pair(at).map_or(&[][..], |(_, new)| new);
            print_changed(output, line, words, (ADDED, ADDED_WORDS))?;
        }
        Ok(())
    }
}

fn print_changed(
    output: &mut Output,
    line: &str,
    words: &[std::ops::Range<usize>],
    styles: (Style, Style),
) -> Result<(), OutputError> {
    let shifted = words.iter().map(|range| range.start + 1..range.end + 1);
    let shifted: Vec<_> = shifted.collect();
    print_line(output, &StyledLine::with_words(line, &shifted, styles))
}

/// Returns a patch from one text to another without a header; empty if they are
/// equal.
pub(crate) fn patch_between(before: &str, after: &str) -> String {
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let printer = BasicLineDiffPrinter(&input.interner);
    diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_between_two_texts_has_places_and_signs() {
        let patch = patch_between("a\nb\nc\n", "a\nB\nc\n");
        assert!(patch.starts_with("@@ -1,3 +1,3 @@\n"), "{patch}");
        assert!(patch.contains("-b\n+B\n"), "{patch}");
        assert_eq!(patch_between("same", "same"), "");
    }
}
