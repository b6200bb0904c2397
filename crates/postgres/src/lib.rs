//! Connections to the host of a PostgreSQL database that can be written: a
//! primary and its standbys may be given, and change their roles.
//!
//! ```text
//! Hosts    one URL with several hosts; finds the one that can be written
//! Pool     connections to the present host; its statements end when the host is
//!          lost, or after a limit
//! Keeper   checks the host in the background, and chooses again
//! ```
//!
//! For the catalog and the store, which have their own statements and errors.
//! Depends on no other crate of the workspace. Never repeats a statement; never
//! has a password in an error or a log.

mod hosts;
mod keeper;
mod pool;

pub use hosts::{Hosts, InvalidUrl, NoneWritable, Period, Writable, host_name};
pub use keeper::{Chosen, Keeper, Lost, Places, answer};
pub use pool::{Change, Connection, Limits, Pool, forgets_statements};
