//! The interface of all drivers, which merge the content of a file.

use std::fmt;
use std::ops::Range;

/// The versions of a file that both sides changed.
#[derive(Clone, Copy, Debug)]
pub struct Versions<'a> {
    /// The common ancestor; `None` if each side created the file.
    pub base: Option<&'a [u8]>,
    /// The file in the target tree of the merge.
    pub ours: &'a [u8],
    /// The file in the tree whose changes are merged into ours.
    pub theirs: &'a [u8],
}

/// Merges the content of files.
///
/// Promises, kept by every driver:
///
/// 1. *One side unchanged*: if one side equals the base, the result is the
///    other side, to the byte.
/// 2. *Nothing is lost*: a clean result contains every change that only one
///    side made.
/// 3. *Symmetry*: swapping the sides gives the same clean result, or a conflict
///    where there was one, unless the driver documents that the later writer
///    wins.
/// 4. *Hostile input*: no input makes the driver panic, run without end, or use
///    memory beyond a small multiple of the input's size.
pub trait Driver: fmt::Debug + Send + Sync {
    /// The name of the driver in policies and histories.
    fn name(&self) -> &'static str;

    /// Whether this driver merges files of this name, unless a policy names
    /// another driver.
    fn claims(&self, file_name: &[u8]) -> bool;

    /// Whether two equal changes both count, as two increments of a counter do.
    /// If false, the driver is not called when both sides are equal.
    fn counts_twice(&self) -> bool {
        false
    }

    /// Merges the versions.
    fn merge(&self, versions: &Versions<'_>) -> Merged;

    /// Merges the versions, with the winner's content at each place that both
    /// sides changed. Returns `None` if the driver cannot parse a version.
    ///
    /// The default implementation is for drivers whose suggestion takes theirs
    /// at each such place.
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

/// The side whose version is taken where both sides changed the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winner {
    /// The target tree of the merge.
    Ours,
    /// The tree whose changes are merged into ours.
    Theirs,
}

/// The result of merging a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The file with all changes of both sides.
    Clean(Vec<u8>),
    /// Both sides changed the same place.
    Conflict(Conflicted),
    /// This driver cannot parse one of the versions (for example invalid JSON);
    /// the caller tries the next driver.
    NotMine,
}

/// The disagreements of two sides about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicted {
    /// The places, in the order of the file; at least one.
    pub hunks: Vec<Hunk>,
    /// A complete file to accept instead of editing by hand: every change that
    /// does not conflict, and a choice for each conflict.
    pub suggestion: Vec<u8>,
    /// A description, for people, of how the suggestion was chosen.
    pub reason: &'static str,
}

/// One place where two sides disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The position of the disagreement.
    pub place: Place,
    /// The content in the base; `None` if absent.
    pub base: Option<Vec<u8>>,
    /// The content in ours; `None` if absent.
    pub ours: Option<Vec<u8>>,
    /// The content in theirs; `None` if absent.
    pub theirs: Option<Vec<u8>>,
}

/// A position in a file.
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
