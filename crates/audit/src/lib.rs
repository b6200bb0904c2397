//! The audit log: append-only files that record every change and its principal.
//! Each record is chained to all records before it.
//!
//! Depends on no other crate of this workspace. Never changes a written record,
//! never waits for space without bound, reads no clock.
//!
//! # Promises
//!
//! 1. *Acknowledged means durable*: a record whose [`Ticket`] has resolved to `Ok`
//!    survives a crash of the process and a loss of power.
//! 2. *A change is detected*: [`verify`] names the first record that was changed,
//!    deleted, inserted or moved.
//! 3. *Truncation is detected* only with a later [`Head`]: the files alone do not
//!    show it. So the caller should record heads elsewhere as well.
//! 4. *Records that cannot be written wait or are counted*: a bounded number of
//!    records waits in memory, and a record after them reports how many were lost.
//!
//! # Files
//!
//! A directory has segments, each named by the number of its first record. A
//! segment has one JSON object per line; the first member is `n`, the record's
//! number, the last is `hash`: the hash of the previous record's hash and of the
//! line's bytes up to `,"hash"`. The first record of a segment has the previous
//! hash in `prev`, so that old segments can be deleted. A file `FORMAT`, which
//! format 1 does not have, has the version of a later format.

mod append;
mod error;
mod format;
mod line;
mod log;
mod read;
mod segment;
mod verify;

pub use append::Appender;
pub use error::{Error, Result};
pub use format::check_format;
pub use line::{Checked, Head, LineError, MAX_LINE_BYTES, check_line};
pub use log::{Log, Ticket};
pub use read::read;
pub use segment::Options;
pub use verify::{Problem, Report, verify};
