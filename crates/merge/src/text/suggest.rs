//! The suggested resolution of a conflict.

use super::combine::Region;
use super::lines::{Line, Texts};

/// The rules for suggestions, in the order in which they apply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    BothAdded,
    OnlyWhitespace,
    OneContainsTheOther,
    Theirs,
}

impl Rule {
    fn reason(self) -> &'static str {
        match self {
            Self::BothAdded => {
                "both sides only added lines: the project's lines, then the workspace's"
            }
            Self::OnlyWhitespace => "one side only changed whitespace: the other side's lines",
            Self::OneContainsTheOther => {
                "one side has all lines of the other and more: the lines of that side"
            }
            Self::Theirs => "both sides changed the same lines: the workspace's lines",
        }
    }
}

/// The rule that the suggestions for a file followed, and whether there were
/// several rules.
#[derive(Default)]
pub(super) struct Choices {
    rule: Option<Rule>,
    mixed: bool,
}

impl Choices {
    /// Appends the lines chosen for a conflict.
    pub(super) fn put(&mut self, texts: &Texts<'_>, region: &Region, out: &mut Vec<u8>) {
        let base = &texts.base[region.base.clone()];
        let ours = &texts.ours[region.ours.clone()];
        let theirs = &texts.theirs[region.theirs.clone()];
        let (rule, chosen) = if base.is_empty() {
            put_both(texts, region, out);
            (Rule::BothAdded, &[][..])
        } else if same_words(texts, base, ours) {
            (Rule::OnlyWhitespace, theirs)
        } else if same_words(texts, base, theirs) {
            (Rule::OnlyWhitespace, ours)
        } else if contains(ours, theirs) {
            (Rule::OneContainsTheOther, ours)
        } else if contains(theirs, ours) {
            (Rule::OneContainsTheOther, theirs)
        } else {
            (Rule::Theirs, theirs)
        };
        texts.put(out, chosen);
        self.mixed |= self.rule.is_some_and(|other| other != rule);
        self.rule = Some(rule);
    }

    pub(super) fn reason(&self) -> &'static str {
        match self.rule {
            Some(rule) if !self.mixed => rule.reason(),
            _ => {
                "for each place: the lines of both sides if both only added some, else those of \
                 the other side if one only changed whitespace, else those of a side that has all \
                 lines of the other, else the workspace's"
            }
        }
    }
}

/// Appends ours, then theirs, with lines shared at the start or end only once.
fn put_both(texts: &Texts<'_>, region: &Region, out: &mut Vec<u8>) {
    let own = region.narrowed(texts);
    texts.put(out, &texts.ours[region.ours.start..own.ours.start]);
    let ours = &texts.ours[own.ours.clone()];
    let theirs = &texts.theirs[own.theirs.start..region.theirs.end];
    texts.put(out, ours);
    if let (Some(&last), Some(&first)) = (ours.last(), theirs.first()) {
        put_ending(texts.line(last), texts.line(first), out);
    }
    texts.put(out, theirs);
}

/// Ends a line that lacks an ending in the same way as the line that follows
/// it.
fn put_ending(line: &[u8], next: &[u8], out: &mut Vec<u8>) {
    if !line.ends_with(b"\n") {
        let has_cr = line.ends_with(b"\r") || !next.ends_with(b"\r\n");
        out.extend_from_slice(if has_cr { b"\n" } else { b"\r\n" });
    }
}

/// Whether two texts differ only in whitespace.
fn same_words(texts: &Texts<'_>, a: &[Line], b: &[Line]) -> bool {
    let visible = |line: &Line| {
        let bytes = texts.line(*line).iter();
        bytes.filter(|byte| !byte.is_ascii_whitespace())
    };
    a.iter().flat_map(visible).eq(b.iter().flat_map(visible))
}

/// Whether `whole` contains all lines of `part`, in that order.
fn contains(whole: &[Line], part: &[Line]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|line| whole.any(|other| other == line))
}
