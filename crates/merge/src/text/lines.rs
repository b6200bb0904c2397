//! Three texts as line numbers: equal lines have equal numbers.

use gix_imara_diff::Interner;
use gix_imara_diff::sources::byte_lines;

pub(super) use elevo_engine::lines::Line;

/// The lines of all three versions.
pub(super) struct Texts<'a> {
    known: Interner<&'a [u8]>,
    pub(super) base: Vec<Line>,
    pub(super) ours: Vec<Line>,
    pub(super) theirs: Vec<Line>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Self {
        let mut known = Interner::default();
        let mut lines = |text| byte_lines(text).map(|line| known.intern(line)).collect();
        let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
        Self {
            known,
            base,
            ours,
            theirs,
        }
    }

    /// The number of distinct lines.
    pub(super) fn distinct(&self) -> usize {
        self.known.num_tokens() as usize
    }

    /// A line's bytes, with its ending.
    pub(super) fn line(&self, line: Line) -> &'a [u8] {
        self.known[line]
    }

    /// Appends lines unchanged.
    pub(super) fn put(&self, out: &mut Vec<u8>, lines: &[Line]) {
        for &line in lines {
            out.extend_from_slice(self.line(line));
        }
    }

    pub(super) fn bytes(&self, lines: &[Line]) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out, lines);
        out
    }
}
