//! `.gitignore` files, with the semantics of git.

use std::collections::HashMap;

use elevo_core::TreePath;

use crate::error::IgnoreError;
use crate::glob::{End, Segment, matches_path, parse};
use crate::view::names_of;

/// Maximum bytes of a `.gitignore`.
pub const MAX_IGNORE_BYTES: usize = 1 << 20;

/// Maximum number of patterns in all `.gitignore` files together.
pub const MAX_IGNORE_PATTERNS: usize = 100_000;

/// Maximum bytes of all `.gitignore` files together.
pub const MAX_IGNORE_TOTAL_BYTES: usize = 8 << 20;

/// Maximum bytes of a line. Longer lines are skipped: a useful pattern is
/// shorter.
const MAX_LINE_BYTES: usize = 16 << 10;

/// The `.gitignore` files of a tree.
#[derive(Clone, Debug, Default)]
pub struct Ignores {
    lists: HashMap<TreePath, List>,
    patterns: usize,
    bytes: usize,
}

impl Ignores {
    /// Creates a set of rules that ignores nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the `.gitignore` of a directory, and replaces an earlier one. Lines
    /// that are not patterns are skipped.
    pub fn add(&mut self, directory: &TreePath, content: &[u8]) -> Result<(), IgnoreError> {
        if content.len() > MAX_IGNORE_BYTES {
            return Err(IgnoreError::TooLarge(content.len()));
        }
        let list = List::parse(content);
        let before = self.lists.get(directory);
        let (patterns, bytes) = before.map_or((0, 0), |list| (list.len(), list.bytes));
        let patterns = self.patterns - patterns + list.len();
        let bytes = self.bytes - bytes + list.bytes;
        if patterns > MAX_IGNORE_PATTERNS || bytes > MAX_IGNORE_TOTAL_BYTES {
            return Err(IgnoreError::TooMany);
        }
        (self.patterns, self.bytes) = (patterns, bytes);
        self.lists.insert(directory.clone(), list);
        Ok(())
    }

    /// Returns whether a path is ignored, by itself or because a directory above
    /// it is.
    pub fn ignores(&self, path: &TreePath, is_directory: bool) -> bool {
        if self.patterns == 0 {
            return false;
        }
        let names = names_of(path);
        let lists = self.lists_above(path, names.len());
        (1..=names.len()).any(|length| {
            let is_directory = is_directory || length < names.len();
            let above = lists.iter().filter(|(depth, _)| *depth < length);
            above
                .filter_map(|(depth, list)| list.ignores(&names[*depth..length], is_directory))
                .next()
                .unwrap_or(false)
        })
    }

    /// Returns the rules that apply to the entries of a directory. To check many
    /// entries, this is faster than [`ignores`](Self::ignores) for each.
    pub fn within<'a>(&'a self, directory: &'a TreePath) -> Within<'a> {
        let names = names_of(directory);
        let mut lists = self.lists_above(directory, names.len());
        let own = self.lists.get(directory).map(|list| (names.len(), list));
        lists.splice(0..0, own);
        Within {
            is_ignored: self.ignores(directory, true),
            names,
            lists,
        }
    }

    /// Returns the lists of the directories above a path, each with the number of
    /// names in its directory; the deepest first, since it decides.
    fn lists_above(&self, path: &TreePath, depth: usize) -> Vec<(usize, &List)> {
        let mut directory = path.clone();
        let mut lists = Vec::new();
        for depth in (0..depth).rev() {
            directory = directory
                .split_last()
                .map_or(directory, |(parent, _)| parent);
            lists.extend(self.lists.get(&directory).map(|list| (depth, list)));
        }
        lists
    }
}

/// The ignore rules for the names in one directory.
#[derive(Clone, Debug)]
pub struct Within<'a> {
    /// The names that lead to the directory.
    names: Vec<&'a [u8]>,
    /// The lists that apply to it, the deepest first, each with the number of
    /// names that lead to its own directory.
    lists: Vec<(usize, &'a List)>,
    is_ignored: bool,
}

impl Within<'_> {
    /// Returns whether a name in the directory is ignored.
    pub fn ignores(&self, name: &[u8], is_directory: bool) -> bool {
        if self.is_ignored || self.lists.is_empty() {
            return self.is_ignored;
        }
        let mut names = Vec::with_capacity(self.names.len() + 1);
        names.extend_from_slice(&self.names);
        names.push(name);
        let mut said = self.lists.iter();
        said.find_map(|(depth, list)| list.ignores(&names[*depth..], is_directory))
            .unwrap_or(false)
    }
}

/// The patterns of one `.gitignore`; the last that matches decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    patterns: Vec<Pattern>,
    /// Positions of patterns that are just a name: in long lists, most are.
    by_name: HashMap<Box<[u8]>, Vec<usize>>,
    /// Positions of all other patterns.
    others: Vec<usize>,
    /// Size of the file.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Pattern {
    segments: Box<[Segment]>,
    /// Whether the pattern is matched against the whole path below the file's
    /// directory instead of its last name.
    anchored: bool,
    directories_only: bool,
    negated: bool,
}

impl List {
    pub(crate) fn parse(content: &[u8]) -> Self {
        let mut list = Self {
            bytes: content.len(),
            ..Self::default()
        };
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        for line in content.split(|byte| *byte == b'\n') {
            list.add(line.strip_suffix(b"\r").unwrap_or(line));
        }
        list
    }

    /// Adds a line; returns whether it is a pattern.
    pub(crate) fn add(&mut self, line: &[u8]) -> bool {
        let Some(pattern) = Pattern::parse(line) else {
            return false;
        };
        let place = self.patterns.len();
        match &pattern.segments[..] {
            [Segment::Literal(name)] if !pattern.anchored => {
                self.by_name.entry(name.clone()).or_default().push(place);
            }
            _ => self.others.push(place),
        }
        self.patterns.push(pattern);
        true
    }

    fn len(&self) -> usize {
        self.patterns.len()
    }

    /// Returns whether a path, given as its names below the file's directory, is
    /// ignored; `None` if no line matches. There must be at least one name.
    pub(crate) fn ignores(&self, names: &[&[u8]], is_directory: bool) -> Option<bool> {
        let last = names.last()?;
        let speaks_of_kind =
            |place: &&usize| is_directory || !self.patterns[**place].directories_only;
        let named = self.by_name.get(*last).into_iter().flatten().rev();
        let named = named.copied().find(|place| speaks_of_kind(&place));
        let later = self.others.iter().rev();
        let later = later.take_while(|place| named.is_none_or(|named| **place > named));
        let other = later
            .filter(speaks_of_kind)
            .find(|place| self.patterns[**place].matches(names, last));
        let place = other.copied().or(named)?;
        Some(!self.patterns[place].negated)
    }
}

impl Pattern {
    fn parse(line: &[u8]) -> Option<Self> {
        // git reads lines as C strings, so a line ends at the first NUL.
        let line = line.split(|byte| *byte == 0).next()?;
        if line.first() == Some(&b'#') || line.len() > MAX_LINE_BYTES {
            return None;
        }
        let mut glob = without_trailing_spaces(line);
        let negated = glob.strip_prefix(b"!");
        glob = negated.unwrap_or(glob);
        let directory = glob.strip_suffix(b"/");
        glob = directory.unwrap_or(glob);
        let anchored = glob.contains(&b'/');
        glob = glob.strip_prefix(b"/").unwrap_or(glob);
        let segments = parse(glob).ok()?;
        let is_empty = |segment: &Segment| *segment == Segment::Literal(Box::default());
        if segments.iter().any(is_empty) {
            return None;
        }
        Some(Self {
            segments: segments.into(),
            anchored,
            directories_only: directory.is_some(),
            negated: negated.is_some(),
        })
    }

    fn matches(&self, names: &[&[u8]], last: &&[u8]) -> bool {
        let names = if self.anchored {
            names
        } else {
            std::slice::from_ref(last)
        };
        matches_path(&self.segments, names, End::Closed)
    }
}

/// Removes trailing spaces that are not escaped.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte != b' ' {
            end = at.min(line.len());
        }
    }
    &line[..end]
}
