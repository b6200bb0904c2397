//! The words everything else is written in: tenants, names, tree paths, times,
//! states of sandboxes, codes of errors.
//!
//! Pure: depends on no other Elevo crate, does no I/O, reads no clock and no
//! environment. What belongs here is a value that more than one crate above
//! must agree on, with its validation; behaviour belongs further up.

mod error_code;
mod name;
mod path;
mod sandbox;
mod tenant;
mod time;

pub use error_code::{ErrorCode, Retry, errors_page};
pub use name::{InvalidName, MAX_NAME_BYTES, Name, RESERVED_NAME};
pub use path::{InvalidPath, MAX_PATH_BYTES, TreePath};
pub use sandbox::SandboxState;
pub use tenant::TenantId;
pub use time::Timestamp;
