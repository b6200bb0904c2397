//! Trees of the engine as tar archives, in and out, without a directory in
//! between.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Archives come
//! from anywhere: whatever is in one, reading it takes bounded memory and ends
//! within the [`Limits`] that the caller gives, and no name leads out of the
//! tree. Knows nothing of directories on disk.
//!
//! [`Reader`] and [`Writer`] know what a tar looks like, for the service and the
//! store; `elevo cp` packs and unpacks the user's own files by the crate `tar`.

mod anything;
mod compressed;
mod error;
mod export;
mod import;
mod limits;
mod meter;
mod reader;
mod whiteout;
mod writer;

pub use anything::read_anything;
pub use error::{Error, Result};
pub use export::{Export, Exported, Form};
pub use import::{ImportOptions, Received, import};
pub use limits::Limits;
pub use reader::{Entry, EntryKind, Reader};
pub use writer::{Head, HeadKind, Writer};
