//! Three-way merge of files and trees: combines the changes that two sides made
//! to a common base.
//!
//! Depends on `elevo-core`, `elevo-objects`, `elevo-policy` and `elevo-engine`.
//! A merge is a function of its three versions and its rules: it reads trees
//! through the engine, but no clock, no random source and no environment, and
//! writes nothing by itself. It never
//! holds more of a file than the configured limit; a larger file is never merged
//! by content.

mod driver;
mod drivers;
mod error;
mod ignore_files;
mod structured;
mod text;
mod tree;

pub use driver::{Conflicted, Driver, Hunk, Lines, Merged, Place, Versions, Winner};
pub use drivers::Drivers;
pub use error::{Error, Result};
pub use ignore_files::IgnoreFiles;
pub use structured::{Crdt, Json, Toml, Yaml};
pub use text::{Labels, MarkerStyle, Text, carried_lines, has_markers, marked};
pub use tree::{
    Conflict, ConflictKind, Landed, LaterFirst, LeftConflict, Limits, Overruled, Precedence,
    RefusalReason, Refused, Rules, Sides, Suggestion, TreeMerge, WORKSPACE_LABELS,
    has_workspace_markers, merge_trees,
};
