//! Which lines of a text are those of an earlier one.

use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};

/// For each line of `after`, the line of `before` that it is, from 0; `None` if
/// it is new.
pub fn carried_lines(before: &[u8], after: &[u8]) -> Vec<Option<u32>> {
    let input = InternedInput::new(byte_lines(before), byte_lines(after));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let count = input.after.len();
    let mut carried = Vec::with_capacity(count);
    let (mut old, mut new) = (0, 0);
    for hunk in diff.hunks() {
        carried.extend((new..hunk.after.start).map(|line| Some(old + line - new)));
        carried.extend(hunk.after.clone().map(|_| None));
        (old, new) = (hunk.before.end, hunk.after.end);
    }
    carried.extend((new..count as u32).map(|line| Some(old + line - new)));
    carried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_carried_around_what_is_new_and_what_is_gone() {
        let carried = carried_lines(b"a\nb\nc\nd\n", b"new\na\nc\nother\nd\n");
        assert_eq!(carried, [None, Some(0), Some(2), None, Some(3)]);
        assert_eq!(carried_lines(b"", b"a\n"), [None]);
        assert_eq!(carried_lines(b"a\n", b""), []);
    }
}
