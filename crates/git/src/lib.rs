//! Reads git repositories into trees of the engine: one commit, or a history
//! commit by commit at the cost of each commit's changes.
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
