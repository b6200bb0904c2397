//! The text between values: white space and comments.

use std::borrow::Cow;

use super::node::Side;

/// How a format writes comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comments {
    /// `// …` and `/* … */`.
    Slashes,
    /// `# …`
    Hash,
}

/// A comment within a gap; `to_line_end` if it ends with its line.
struct Found {
    start: usize,
    end: usize,
    to_line_end: bool,
}

impl Comments {
    fn find(self, gap: &str, from: usize) -> Option<Found> {
        let rest = &gap[from..];
        let (at, block) = match self {
            Comments::Hash => (rest.find('#')?, false),
            Comments::Slashes => {
                let at = rest.find('/')?;
                (at, rest[at..].starts_with("/*"))
            }
        };
        let end = if block {
            rest[at..].find("*/").map(|length| at + length + 2)
        } else {
            rest[at..].find('\n').map(|length| at + length)
        };
        Some(Found {
            start: from + at,
            end: from + end.unwrap_or(rest.len()),
            to_line_end: !block,
        })
    }

    fn all(self, gap: &str) -> impl Iterator<Item = Found> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.find(gap, from)?;
            from = found.end;
            Some(found)
        })
    }

    /// The comments of a gap, without the white space around them.
    pub(crate) fn texts(self, gap: &str) -> impl Iterator<Item = &str> {
        self.all(gap)
            .map(|found| gap[found.start..found.end].trim_end())
    }

    pub(crate) fn has_any(self, gap: &str) -> bool {
        self.find(gap, 0).is_some()
    }

    /// Whether the gap ends in a line comment, so that a new line must follow.
    pub(crate) fn ends_open(self, gap: &str) -> bool {
        self.all(gap)
            .last()
            .is_some_and(|found| found.to_line_end && found.end == gap.len())
    }

    /// Splits the gap after a value into the comment on the rest of its line,
    /// which belongs to the value, and the remainder.
    pub(crate) fn split_trail(self, gap: &str) -> (&str, &str) {
        let line = gap.find('\n').unwrap_or(gap.len());
        let mut end = 0;
        for found in self.all(gap) {
            if found.start > line {
                break;
            }
            if found.end > line {
                return ("", gap);
            }
            end = found.end;
        }
        let closed = line < gap.len() || self.ends_open(gap);
        if end == 0 || !closed || !gap[end..line].trim().is_empty() {
            return ("", gap);
        }
        if gap[..end].ends_with('\r') {
            end -= 1;
        }
        gap.split_at(end)
    }

    /// Splits the gap after a value at its comma.
    pub(crate) fn split_comma(self, gap: &str) -> Option<(&str, &str)> {
        let mut from = 0;
        for found in self.all(gap) {
            if let Some(at) = gap[from..found.start].find(',') {
                return Some((&gap[..from + at], &gap[from + at + 1..]));
            }
            from = found.end;
        }
        let at = from + gap[from..].find(',')?;
        Some((&gap[..at], &gap[at + 1..]))
    }

    /// Whether the text is only white space and comments. Tabs do not count as
    /// white space.
    pub(crate) fn is_gap(self, text: &str) -> bool {
        let white = |text: &str| text.bytes().all(|b| matches!(b, b' ' | b'\r' | b'\n'));
        let mut from = 0;
        for found in self.all(text) {
            if !white(&text[from..found.start]) {
                return false;
            }
            from = found.end;
        }
        white(&text[from..])
    }

    /// Returns the side whose gap is kept, and whether both sides changed its
    /// comments. If both changed only white space, ours is kept.
    pub(crate) fn choose(self, base: Option<&str>, ours: &str, theirs: &str) -> (Side, bool) {
        if ours == theirs || base == Some(theirs) {
            return (Side::Ours, false);
        }
        if base == Some(ours) {
            return (Side::Theirs, false);
        }
        let base = base.unwrap_or("");
        let same = |one, other| self.texts(one).eq(self.texts(other));
        if same(ours, theirs) || same(base, theirs) {
            (Side::Ours, false)
        } else {
            (Side::Theirs, !same(base, ours))
        }
    }
}

/// The white space at the start of the last line of a gap; `None` if the gap
/// has no new line.
pub(crate) fn indent(gap: &str) -> Option<&str> {
    let line = &gap[gap.rfind('\n')? + 1..];
    let end = line
        .find(|c| !matches!(c, ' ' | '\t'))
        .unwrap_or(line.len());
    Some(&line[..end])
}

/// The adjustments to text that moves from one place to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift<'s> {
    /// The indentation of lines at the source and at the target.
    pub(crate) indent: (&'s str, &'s str),
    /// The indentation of one level at the source and at the target; empty to
    /// keep it.
    pub(crate) unit: (&'s str, &'s str),
    /// The line endings at the source and at the target; empty to keep them.
    pub(crate) eol: (&'s str, &'s str),
}

impl Shift<'_> {
    /// Leaves the text unchanged.
    pub(crate) const NONE: Shift<'static> = Shift {
        indent: ("", ""),
        unit: ("", ""),
        eol: ("", ""),
    };

    pub(crate) fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let alike = self.indent.0 == self.indent.1
            && self.eol.0 == self.eol.1
            && self.unit.0 == self.unit.1;
        if alike || !text.contains('\n') {
            return Cow::Borrowed(text);
        }
        let mut moved = String::with_capacity(text.len());
        let mut lines = text.split('\n').peekable();
        moved.push_str(lines.next().unwrap_or_default());
        while let Some(line) = lines.next() {
            if self.eol.0 == self.eol.1 {
                moved.push('\n');
            } else {
                if moved.ends_with('\r') {
                    moved.pop();
                }
                moved.push_str(self.eol.1);
            }
            // A blank line stays as it is. The last line is indented even if it
            // is blank, because the text that follows continues it.
            if lines.peek().is_some() && line.trim().is_empty() {
                moved.push_str(line);
            } else {
                self.line(line, &mut moved);
            }
        }
        Cow::Owned(moved)
    }

    fn line(&self, line: &str, moved: &mut String) {
        let Some(mut rest) = line.strip_prefix(self.indent.0) else {
            return moved.push_str(line);
        };
        moved.push_str(self.indent.1);
        if self.unit.0 != self.unit.1 {
            while let Some(inner) = rest.strip_prefix(self.unit.0) {
                moved.push_str(self.unit.1);
                rest = inner;
            }
        }
        moved.push_str(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_at_the_end_of_a_line_belongs_to_the_value_before_it() {
        let split = |gap| Comments::Slashes.split_trail(gap);
        assert_eq!(split(" // a\n  // b\n"), (" // a", "\n  // b\n"));
        assert_eq!(split(" // a\r\n  "), (" // a", "\r\n  "));
        assert_eq!(split(" /* a */ \n  "), (" /* a */", " \n  "));
        assert_eq!(
            split(" /* about the next */ "),
            ("", " /* about the next */ ")
        );
        assert_eq!(split(" /* long\n */ "), ("", " /* long\n */ "));
        assert_eq!(split("\n  // b\n"), ("", "\n  // b\n"));
    }

    #[test]
    fn a_comma_in_a_comment_separates_nothing() {
        let split = |gap| Comments::Slashes.split_comma(gap);
        assert_eq!(split(" /* , */ , // ,"), Some((" /* , */ ", " // ,")));
        assert_eq!(split(" // ,\n"), None);
    }

    #[test]
    fn a_changed_comment_wins_over_a_changed_indent() {
        let choose = |base, ours, theirs| Comments::Hash.choose(Some(base), ours, theirs);
        assert_eq!(choose("\n", "\n\n", "\n# b\n"), (Side::Theirs, false));
        assert_eq!(choose("\n", "\n# a\n", "\n\n"), (Side::Ours, false));
        assert_eq!(choose("\n", "\n# a\n", "\n# b\n"), (Side::Theirs, true));
        assert_eq!(choose("\n", "\n\n", "\n \n"), (Side::Ours, false));
    }

    #[test]
    fn moved_lines_take_the_indentation_of_their_new_place() {
        let shift = Shift {
            indent: ("  ", "\t"),
            unit: ("  ", "\t"),
            eol: ("\n", "\r\n"),
        };
        assert_eq!(shift.apply("{\n    1\n\n  }"), "{\r\n\t\t1\r\n\r\n\t}");
    }
}
