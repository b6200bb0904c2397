//! Reads git repositories into trees of the engine: one commit, or a history
//! commit by commit at the cost of what each changed.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`, and on `gix` for
//! what git keeps. Reads no clock, no environment and no settings of the user's
//! or the system's git; runs no program. Never writes to a repository of git,
//! and never holds more than some megabytes beside the largest file.

mod error;
mod reader;
mod source;

pub use error::{Error, Result};
pub use reader::Reader;
pub use source::{Commit, Source};
