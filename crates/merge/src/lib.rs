//! Three-way merge of files and trees: what two sides made of a common base,
//! brought together.
//!
//! Depends on `elevo-core`, `elevo-objects`, `elevo-policy` and `elevo-engine`.
//! A merge is a function of its three versions and its rules: it reads no clock,
//! no random source and no environment, and writes nothing by itself. Never
//! holds more of a file than the limit it was given; a larger one is treated as
//! binary.

mod driver;
mod drivers;
mod error;
mod lines;
mod structured;
mod text;
mod tree;

pub use driver::{Conflicted, Driver, Hunk, Lines, Merged, Place, Versions};
pub use drivers::Drivers;
pub use error::{Error, Result};
pub use lines::carried_lines;
pub use structured::{Crdt, Json, Toml, Yaml};
pub use text::{Labels, MarkerStyle, Text, marked};
pub use tree::{
    Conflict, ConflictKind, Landed, LaterFirst, Limits, Overruled, Precedence, Refused, Rules,
    Sides, Suggestion, TreeMerge, merge_trees,
};
