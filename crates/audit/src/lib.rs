//! Who did what, in files that are only ever added to, each record chained to
//! all before it.
//!
//! Depends on no other crate of this workspace. Never changes what it has
//! written, never waits for room without bound, reads no clock.
//!
//! # What holds
//!
//! 1. *Acknowledged means durable*: a record whose [`Ticket`] has come true
//!    survives the end of the process and a loss of power.
//! 2. *One change is found*: [`verify`] names the first record that is not as it
//!    was written, is missing, was added, or stands elsewhere.
//! 3. *An end that was cut off is found* by whoever noted a later [`Head`]: the
//!    files alone cannot tell. So heads belong elsewhere as well.
//! 4. *What cannot be written waits or is counted*: a bounded number of records
//!    waits in memory, and the first record after them says how many were lost.
//!
//! # Files
//!
//! A directory has segments, named by the number of their first record. A
//! segment has a JSON object a line; the first member is `n`, the record's
//! number, the last is `hash`. The hash is that of the hash before it and of the
//! line's bytes up to `,"hash"`. The first record of a segment says in `prev`
//! what it is chained to, so that old segments can be removed whole.

mod append;
mod error;
mod line;
mod log;
mod read;
mod segment;
mod verify;

pub use append::Appender;
pub use error::{Error, Result};
pub use line::{Checked, Head, LineError, MAX_LINE_BYTES, check_line};
pub use log::{Log, Ticket};
pub use read::read;
pub use segment::Options;
pub use verify::{Problem, Report, verify};
