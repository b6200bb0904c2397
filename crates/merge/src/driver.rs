//! How two versions of a file become one: the interface of all drivers.

use std::fmt;
use std::ops::Range;

/// The versions of a file that both sides changed.
#[derive(Clone, Copy, Debug)]
pub struct Versions<'a> {
    /// What both began with; `None` if each made a file of that name.
    pub base: Option<&'a [u8]>,
    /// What is in the tree that is merged into.
    pub ours: &'a [u8],
    /// What is merged into it.
    pub theirs: &'a [u8],
}

/// Merges the content of files.
///
/// Promises, kept by every driver:
///
/// 1. *One side unchanged*: if one side equals the base, the result is the
///    other side, to the byte.
/// 2. *Nothing is lost*: what one side changed and the other left alone is in a
///    clean result.
/// 3. *Sides are alike*: swapping them gives the same clean result, and a
///    conflict where there was one, unless the driver says that the later
///    writer wins.
/// 4. *Input is hostile*: no input makes it panic, run away, or take memory
///    beyond a small multiple of its size.
pub trait Driver: fmt::Debug + Send + Sync {
    /// What policies and histories call it.
    fn name(&self) -> &'static str;

    /// Whether files of this name are its own, unless a policy says otherwise.
    fn claims(&self, file_name: &[u8]) -> bool;

    /// Whether two equal changes are more than one of them: of counters, both
    /// count. Others are not asked when both sides are equal.
    fn counts_twice(&self) -> bool {
        false
    }

    /// Merges, or says why not.
    fn merge(&self, versions: &Versions<'_>) -> Merged;

    /// Merges, and takes the winner's version of each place that both changed.
    /// `None` if the driver cannot read a version.
    ///
    /// This default is for drivers whose suggestion takes theirs at each place.
    fn merge_for(&self, versions: &Versions<'_>, winner: Winner) -> Option<Vec<u8>> {
        let versions = match winner {
            Winner::Theirs => *versions,
            Winner::Ours => Versions {
                base: versions.base,
                ours: versions.theirs,
                theirs: versions.ours,
            },
        };
        match self.merge(&versions) {
            Merged::Clean(bytes) => Some(bytes),
            Merged::Conflict(conflicted) => Some(conflicted.suggestion),
            Merged::NotMine => None,
        }
    }
}

/// The side whose version is taken where both changed the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winner {
    /// The tree that is merged into.
    Ours,
    /// The tree that is merged into it.
    Theirs,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// Everything of both sides is in it.
    Clean(Vec<u8>),
    /// Both sides changed the same thing.
    Conflict(Conflicted),
    /// One of the versions is not what this driver can read, such as JSON that
    /// is none; another driver should be asked.
    NotMine,
}

/// Where two sides disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicted {
    /// The places, in the order of the file; at least one.
    pub hunks: Vec<Hunk>,
    /// A whole file that somebody may take instead of thinking: everything that
    /// does not conflict, and a choice for everything that does.
    pub suggestion: Vec<u8>,
    /// How the suggestion chose, in words for people.
    pub reason: &'static str,
}

/// One place where two sides disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Where.
    pub place: Place,
    /// What was there; `None` if nothing.
    pub base: Option<Vec<u8>>,
    /// What our side has; `None` if nothing.
    pub ours: Option<Vec<u8>>,
    /// What their side has; `None` if nothing.
    pub theirs: Option<Vec<u8>>,
}

/// Where in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Lines of a text.
    Lines(Lines),
    /// A value in a structure, as a JSON pointer (RFC 6901).
    Key(String),
}

/// The same place in each version, as lines counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// In the base.
    pub base: Range<u32>,
    /// In ours.
    pub ours: Range<u32>,
    /// In theirs.
    pub theirs: Range<u32>,
}
