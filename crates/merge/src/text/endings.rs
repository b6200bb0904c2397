//! Line endings, as a property of a whole file.

use std::borrow::Cow;

use memchr::memchr_iter;

/// The three versions of a file. They are converted to the same line ending if
/// each version is uniform and at least one side changed the ending.
pub(super) struct UniformEndings<'a> {
    pub(super) base: Cow<'a, [u8]>,
    pub(super) ours: Cow<'a, [u8]>,
    pub(super) theirs: Cow<'a, [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Lf,
    CrLf,
}

impl<'a> UniformEndings<'a> {
    pub(super) fn new(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Self {
        let merged = merged(Ending::of(base), Ending::of(ours), Ending::of(theirs));
        let with = |text| match merged {
            Some(ending) => ending.given_to(text),
            None => Cow::Borrowed(text),
        };
        Self {
            base: with(base),
            ours: with(ours),
            theirs: with(theirs),
        }
    }
}

/// Returns the line ending of the side that changed it; `None` if a version has
/// no uniform ending, or neither side changed the ending.
fn merged(base: Option<Ending>, ours: Option<Ending>, theirs: Option<Ending>) -> Option<Ending> {
    let (base, ours, theirs) = (base?, ours?, theirs?);
    let changed = if ours == base { theirs } else { ours };
    (changed != base).then_some(changed)
}

impl Ending {
    /// Returns the ending that all lines of a text have; `None` if the endings
    /// are mixed or absent, or if a line ends in CR CR LF, because its
    /// conversion could not be undone.
    fn of(text: &[u8]) -> Option<Self> {
        let mut endings = memchr_iter(b'\n', text).map(|at| match &text[..at] {
            [.., b'\r', b'\r'] => None,
            [.., b'\r'] => Some(Self::CrLf),
            _ => Some(Self::Lf),
        });
        let first = endings.next()??;
        endings.all(|other| other == Some(first)).then_some(first)
    }

    /// Converts a text of uniform endings to this ending.
    fn given_to(self, text: &[u8]) -> Cow<'_, [u8]> {
        if Self::of(text) == Some(self) {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len() + text.len() / 16);
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            match (self, line) {
                (Self::Lf, [kept @ .., b'\r', b'\n']) => {
                    out.extend_from_slice(kept);
                    out.push(b'\n');
                }
                (Self::CrLf, [kept @ .., b'\n']) => {
                    out.extend_from_slice(kept);
                    out.extend_from_slice(b"\r\n");
                }
                (_, line) => out.extend_from_slice(line),
            }
        }
        Cow::Owned(out)
    }
}
