//! The patterns of rules: globs with braces that cover everything below a match,
//! and their specificity.

use std::borrow::Cow;

use crate::glob::{End, Malformed, Segment, Token, matches_path, parse};

/// Maximum bytes of the pattern of a rule.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// Maximum number of names in a pattern.
const MAX_NAMES: usize = 64;

/// Maximum number of patterns that the braces of one pattern expand to.
const MAX_ALTERNATIVES: usize = 64;

/// Maximum number of braces in a pattern.
const MAX_BRACES: usize = 16;

/// A pattern without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    segments: Vec<Segment>,
    /// Whether the pattern is `**`, which covers the root too.
    everything: bool,
}

/// How specific a pattern is. The greater takes precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Specificity {
    leading_names: usize,
    literal_bytes: usize,
    exact: bool,
}

/// How much of the content below a directory a pattern covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    Nothing,
    Something,
    Everything,
}

/// Reasons why a text is not the pattern of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidPattern {
    #[error("the pattern is empty; write `**` for everything")]
    Empty,
    #[error("the pattern is longer than {MAX_PATTERN_BYTES} bytes; shorten it")]
    TooLong,
    #[error("the pattern has a NUL, which no path has; remove it")]
    Nul,
    #[error("the pattern has an empty name, `.` or `..`, which no path has; remove that")]
    NotAName,
    #[error("the pattern has more than {MAX_NAMES} path components; use a shorter one with `**`")]
    TooManyNames,
    #[error(
        "a `{{` has no matching `}}`, or a `}}` has no matching `{{`; add the other brace, or write `\\{{` or `\\}}` for the character"
    )]
    Braces,
    #[error("the pattern has more than {MAX_BRACES} braces; write several rules")]
    TooManyBraces,
    #[error("the braces stand for more than {MAX_ALTERNATIVES} patterns; write several rules")]
    TooManyAlternatives,
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Pattern {
    /// Parses a pattern and expands its braces.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, InvalidPattern> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(InvalidPattern::TooLong);
        }
        if text.contains('\0') {
            return Err(InvalidPattern::Nul);
        }
        let mut patterns: Vec<Self> = Vec::new();
        for spelling in spellings(text.as_bytes())? {
            let pattern = Self::parse(&spelling)?;
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Ok(patterns)
    }

    fn parse(text: &[u8]) -> Result<Self, InvalidPattern> {
        let text = text.strip_prefix(b"/").unwrap_or(text);
        let text = text.strip_suffix(b"/").unwrap_or(text);
        if text.is_empty() {
            return Err(InvalidPattern::Empty);
        }
        let segments = parse(text)?;
        let is_no_name = |segment: &Segment| match segment {
            Segment::Literal(name) => matches!(**name, [] | [b'.'] | [b'.', b'.']),
            _ => false,
        };
        if segments.iter().any(is_no_name) {
            return Err(InvalidPattern::NotAName);
        }
        if segments.len() > MAX_NAMES {
            return Err(InvalidPattern::TooManyNames);
        }
        let is_deep = |name: &[u8]| name.len() > 1 && name.iter().all(|byte| *byte == b'*');
        let everything = text.split(|byte| *byte == b'/').all(is_deep);
        Ok(Self {
            segments,
            everything,
        })
    }

    pub(crate) fn specificity(&self) -> Specificity {
        let is_literal = |segment: &&Segment| matches!(segment, Segment::Literal(_));
        let leading_names = self.segments.iter().take_while(is_literal).count();
        let literal_bytes = self.segments.iter().map(|segment| match segment {
            Segment::Deep | Segment::Any => 0,
            Segment::Literal(name) => name.len(),
            Segment::Glob(tokens) => {
                let is_byte = |token: &&Token| matches!(token, Token::Byte(_));
                tokens.iter().filter(is_byte).count()
            }
        });
        Specificity {
            leading_names,
            literal_bytes: literal_bytes.sum(),
            exact: leading_names == self.segments.len(),
        }
    }

    /// Returns whether the path, or a directory above it, matches.
    pub(crate) fn covers(&self, names: &[&[u8]]) -> bool {
        self.everything || matches_path(&self.segments, names, End::Open)
    }

    /// Returns how much of the content below a directory the pattern covers. May
    /// return [`Below::Something`] for a pattern that actually covers everything
    /// or nothing.
    pub(crate) fn below(&self, directory: &[&[u8]]) -> Below {
        let mut reach = Reach::new(&self.segments);
        for name in directory {
            reach.step(|segment| segment.fits(name));
        }
        reach.below()
    }

    /// Returns whether this pattern covers every path that the other covers. May
    /// return `false` although it does.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        if other.everything && !self.everything {
            return false;
        }
        let mut reach = Reach::new(&self.segments);
        for segment in &other.segments {
            match segment {
                Segment::Deep if reach.below() == Below::Everything => return true,
                // A `**` of this pattern matches any number of names, so it
                // also matches those of the other's `**`.
                Segment::Deep => reach.step(|_| false),
                Segment::Literal(name) => reach.step(|ours| ours.fits(name)),
                wild => reach.step(|ours| *ours == Segment::Any || ours == wild),
            }
            if reach.covered || reach.at.is_empty() {
                return reach.covered;
            }
        }
        false
    }
}

/// Matches a pattern name by name. Holds all positions in the pattern that the
/// names so far can lead to.
struct Reach<'a> {
    segments: &'a [Segment],
    at: Vec<usize>,
    covered: bool,
}

impl<'a> Reach<'a> {
    fn new(segments: &'a [Segment]) -> Self {
        let mut reach = Self {
            segments,
            at: Vec::new(),
            covered: false,
        };
        reach.arrive(0);
        reach
    }

    /// Adds a position, and the next one if the segment can be skipped.
    /// Positions are added in ascending order, so only the last one can equal
    /// the new one.
    fn arrive(&mut self, place: usize) {
        if self.at.last().is_none_or(|last| *last < place) {
            self.at.push(place);
        }
        if self.segments.get(place) == Some(&Segment::Deep) {
            self.arrive(place + 1);
        }
    }

    fn step(&mut self, fits: impl Fn(&Segment) -> bool) {
        for place in std::mem::take(&mut self.at) {
            match &self.segments[place] {
                Segment::Deep => self.arrive(place),
                segment if !fits(segment) => {}
                _ if place + 1 == self.segments.len() => self.covered = true,
                _ => self.arrive(place + 1),
            }
        }
    }

    fn below(&self) -> Below {
        let any_name = |place: &usize| self.segments[*place..] == [Segment::Any];
        if self.covered || self.at.iter().any(any_name) {
            Below::Everything
        } else if self.at.is_empty() {
            Below::Nothing
        } else {
            Below::Something
        }
    }
}

/// Expands the braces of a pattern: `{a,b}c` becomes `ac` and `bc`.
fn spellings(pattern: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, InvalidPattern> {
    if pattern.iter().filter(|byte| **byte == b'{').count() > MAX_BRACES {
        return Err(InvalidPattern::TooManyBraces);
    }
    let mut open = vec![Cow::Borrowed(pattern)];
    let mut done = Vec::new();
    while let Some(pattern) = open.pop() {
        let Some(braces) = Braces::first(&pattern)? else {
            done.push(pattern);
            continue;
        };
        let mut start = braces.start;
        for end in braces.ends {
            let parts = [
                &pattern[..braces.start - 1],
                &pattern[start..end],
                &pattern[braces.close + 1..],
            ];
            open.push(Cow::Owned(parts.concat()));
            start = end + 1;
        }
        if open.len() + done.len() > MAX_ALTERNATIVES {
            return Err(InvalidPattern::TooManyAlternatives);
        }
    }
    Ok(done)
}

/// The first braces of a pattern that are not within others.
struct Braces {
    /// Position after the `{`.
    start: usize,
    /// Positions of the ends of its alternatives.
    ends: Vec<usize>,
    /// Position of the `}`.
    close: usize,
}

impl Braces {
    fn first(pattern: &[u8]) -> Result<Option<Self>, InvalidPattern> {
        let (mut depth, mut start, mut at) = (0_usize, 0, 0);
        let mut ends = Vec::new();
        while let Some(byte) = pattern.get(at) {
            match byte {
                b'\\' => at += 1,
                b'[' => at = class_end(pattern, at),
                b'{' => {
                    depth += 1;
                    if depth == 1 {
                        start = at + 1;
                    }
                }
                b',' if depth == 1 => ends.push(at),
                b'}' => {
                    depth = depth.checked_sub(1).ok_or(InvalidPattern::Braces)?;
                    if depth == 0 {
                        ends.push(at);
                        let close = at;
                        return Ok(Some(Self { start, ends, close }));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        match depth {
            0 => Ok(None),
            _ => Err(InvalidPattern::Braces),
        }
    }
}

/// Returns the end of the class that begins at `start`. Braces within a class
/// are ordinary characters. An unclosed class is reported when the pattern is
/// parsed.
fn class_end(pattern: &[u8], start: usize) -> usize {
    let negated = matches!(pattern.get(start + 1), Some(b'!' | b'^'));
    let first = start + 1 + usize::from(negated);
    let mut at = first;
    while let Some(byte) = pattern.get(at) {
        match byte {
            b']' if at > first => return at,
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
    }
    start
}
