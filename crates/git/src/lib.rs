//! Reads git repositories into trees of the engine: one commit, or all commits
//! of a history. In a history, the cost of a commit depends on its changes, not
//! on the size of its tree.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`, and on `gix`
//! for the formats of git. Reads no clock, no environment and no settings of
//! the user's or the system's git; runs no program. Never writes to a git
//! repository, and never holds more than some tens of megabytes in addition to
//! the largest file.

mod error;
mod reader;
mod source;

pub use error::{Error, Result};
pub use reader::Reader;
pub use source::{Commit, Source};
