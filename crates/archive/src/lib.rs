//! Imports and exports trees of the engine as tar archives, without a directory
//! in between.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Archives are
//! untrusted: reading any archive takes bounded memory, stops at the [`Limits`]
//! of the caller, and never creates a path outside the tree. Knows nothing of
//! directories on disk.
//!
//! [`Reader`] and [`Writer`] implement the tar format for the service and the
//! store; `elevo cp` packs and unpacks the user's own files with the crate
//! `tar`.

mod compressed;
mod error;
mod export;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod import;
mod limits;
mod meter;
mod reader;
mod whiteout;
mod writer;

pub use compressed::decompress;
pub use error::{Error, Result};
pub use export::{Export, ExportContent, Exported};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzing::read_any_archive;
pub use import::{ImportOptions, Received, import};
pub use limits::Limits;
pub use reader::{Entry, EntryKind, Reader};
pub use writer::{Head, HeadKind, Writer};
