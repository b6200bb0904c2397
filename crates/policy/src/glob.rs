//! Globs over paths with the semantics of git. Paths are matched name by name,
//! and names byte by byte.
//!
//! [`matches`] matches both the names of a path and the bytes of a name. For
//! any pattern, its number of steps is at most proportional to the product of
//! the lengths of the pattern and the input.

use std::ops::RangeInclusive;

/// A part of a pattern, which matches one name or any number of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// `**`: any number of names, including none.
    Deep,
    /// `*`: any one name.
    Any,
    /// This name.
    Literal(Box<[u8]>),
    /// A name with wildcards in it.
    Glob(Box<[Token]>),
}

/// A part of a name with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Byte(u8),
    One,
    Many,
    Class(Box<Class>),
}

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class([u128; 2]);

impl Class {
    fn add(&mut self, bytes: RangeInclusive<u8>) {
        bytes.for_each(|byte| self.0[usize::from(byte >> 7)] |= 1 << (byte & 127));
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 7)] & (1 << (byte & 127)) != 0
    }
}

/// Reasons why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the `\\` at the end escapes nothing; write `\\\\` for a backslash")]
    DanglingEscape,
    #[error("a `[` is not closed; close it, or write `\\[` for the character")]
    UnclosedClass,
    #[error("the character class is unknown; use one such as `[:alnum:]` or `[:digit:]`")]
    UnknownClass,
}

impl Segment {
    /// Returns whether the segment matches this name; [`Segment::Deep`] matches
    /// names only in [`matches_path`].
    pub(crate) fn fits(&self, name: &[u8]) -> bool {
        match self {
            Self::Deep => false,
            Self::Any => true,
            Self::Literal(literal) => **literal == *name,
            Self::Glob(tokens) => {
                let is_star = |token: &Token| *token == Token::Many;
                matches(tokens, name, is_star, Token::fits, End::Closed)
            }
        }
    }

    fn is_deep(&self) -> bool {
        *self == Self::Deep
    }
}

impl Token {
    fn fits(&self, byte: &u8) -> bool {
        match self {
            Self::Byte(other) => other == byte,
            Self::One => true,
            Self::Many => false,
            Self::Class(class) => class.contains(*byte),
        }
    }
}

/// The input that may follow the match of a whole pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing.
    Closed,
    /// Anything: the pattern covers everything below.
    Open,
}

/// Returns whether the segments match a path, given as its names.
pub(crate) fn matches_path(segments: &[Segment], names: &[&[u8]], end: End) -> bool {
    let fits = |segment: &Segment, name: &&[u8]| segment.fits(name);
    matches(segments, names, Segment::is_deep, fits, end)
}

/// Matches items one by one, where a star is any number of them. Backtracks
/// only to the last star, which can match everything that an earlier star
/// could.
fn matches<P, I>(
    pattern: &[P],
    items: &[I],
    is_star: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &I) -> bool,
    end: End,
) -> bool {
    let (mut at, mut item) = (0, 0);
    let mut retry = None;
    loop {
        match pattern.get(at) {
            None if item == items.len() || end == End::Open => return true,
            Some(part) if is_star(part) => {
                at += 1;
                retry = Some((at, item));
                continue;
            }
            Some(_) if item == items.len() => return false,
            Some(part) if fits(part, &items[item]) => {
                at += 1;
                item += 1;
                continue;
            }
            _ => {}
        }
        let Some((after_star, taken)) = retry else {
            return false;
        };
        (at, item) = (after_star, taken + 1);
        retry = Some((at, item));
    }
}

/// Parses a pattern. A `**` at the end becomes `**/*`, since it stands for at
/// least one name; an empty name in the pattern is kept, and matches no name.
pub(crate) fn parse(pattern: &[u8]) -> Result<Vec<Segment>, Malformed> {
    let mut segments = Vec::new();
    let mut rest = pattern;
    loop {
        let mut name = NameParser { rest, stars: 0 };
        let (segment, ended) = name.segment()?;
        rest = name.rest;
        if !(segment.is_deep() && segments.last().is_some_and(Segment::is_deep)) {
            segments.push(segment);
        }
        if ended {
            break;
        }
    }
    if segments.last().is_some_and(Segment::is_deep) {
        segments.push(Segment::Any);
    }
    Ok(segments)
}

struct NameParser<'a> {
    rest: &'a [u8],
    stars: usize,
}

impl NameParser<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Parses one name; also returns whether the pattern ends with it.
    fn segment(&mut self) -> Result<(Segment, bool), Malformed> {
        let mut tokens = Vec::new();
        let ended = loop {
            let token = match self.next() {
                None => break true,
                Some(b'/') => break false,
                Some(b'\\') => match self.next() {
                    None => return Err(Malformed::DanglingEscape),
                    Some(b'/') => break false,
                    Some(byte) => Token::Byte(byte),
                },
                Some(b'?') => Token::One,
                Some(b'*') => {
                    self.stars += 1;
                    Token::Many
                }
                Some(b'[') => Token::Class(Box::new(self.class()?)),
                Some(byte) => Token::Byte(byte),
            };
            if !(token == Token::Many && tokens.last() == Some(&Token::Many)) {
                tokens.push(token);
            }
        };
        Ok((self.finish(tokens), ended))
    }

    fn finish(&self, tokens: Vec<Token>) -> Segment {
        if tokens[..] == [Token::Many] {
            return match self.stars {
                1 => Segment::Any,
                _ => Segment::Deep,
            };
        }
        let literal = tokens.iter().map(|token| match token {
            Token::Byte(byte) => Some(*byte),
            _ => None,
        });
        match literal.collect::<Option<Box<[u8]>>>() {
            Some(literal) => Segment::Literal(literal),
            None => Segment::Glob(tokens.into()),
        }
    }

    /// Parses the class after a `[`. A `]` right at the beginning is a byte of
    /// the class, as in shells; `\` escapes the next byte.
    fn class(&mut self) -> Result<Class, Malformed> {
        let unclosed = Malformed::UnclosedClass;
        let negated = matches!(self.rest.first(), Some(b'!' | b'^'));
        if negated {
            self.next();
        }
        let mut set = Class([0; 2]);
        let mut previous = None;
        let mut byte = self.next().ok_or(unclosed)?;
        loop {
            previous = self.class_part(&mut set, previous, byte)?;
            byte = self.next().ok_or(unclosed)?;
            if byte == b']' {
                break;
            }
        }
        Ok(if negated {
            Class(set.0.map(|bits| !bits))
        } else {
            set
        })
    }

    /// Adds the part of a class that begins with `byte`: a byte, a named class,
    /// or the end of a range from `previous`. Returns the byte that a range can
    /// begin with.
    fn class_part(
        &mut self,
        set: &mut Class,
        previous: Option<u8>,
        byte: u8,
    ) -> Result<Option<u8>, Malformed> {
        let unclosed = Malformed::UnclosedClass;
        let single = match (byte, previous) {
            (b'\\', _) => self.next().ok_or(unclosed)?,
            (b'-', Some(first)) if !matches!(self.rest, [] | [b']', ..]) => {
                let last = match self.next() {
                    Some(b'\\') => self.next(),
                    last => last,
                };
                set.add(first..=last.ok_or(unclosed)?);
                return Ok(None);
            }
            (b'[', _) if self.rest.first() == Some(&b':') => match self.named_class()? {
                Some(holds) => {
                    let held = (0..=255).filter(holds);
                    held.for_each(|byte| set.add(byte..=byte));
                    return Ok(None);
                }
                None => b'[',
            },
            (byte, _) => byte,
        };
        set.add(single..=single);
        Ok(Some(single))
    }

    /// Parses the `:digit:]` of `[:digit:]`. Returns `None` and consumes
    /// nothing if the text up to the next `]` does not end with `:`.
    fn named_class(&mut self) -> Result<Option<IsInClass>, Malformed> {
        let body = self.rest.get(1..).unwrap_or_default();
        let end = body.iter().position(|byte| *byte == b']');
        let end = end.ok_or(Malformed::UnclosedClass)?;
        let Some(name) = body[..end].strip_suffix(b":") else {
            return Ok(None);
        };
        self.rest = &body[end + 1..];
        class_named(name).map(Some).ok_or(Malformed::UnknownClass)
    }
}

type IsInClass = fn(&u8) -> bool;

fn class_named(name: &[u8]) -> Option<IsInClass> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}
