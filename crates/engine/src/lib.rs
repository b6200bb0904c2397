//! The state engine: trees of files that fork in O(1), and commit and diff in
//! O(changed), over any [`Store`].
//!
//! Depends on `elevo-core` and `elevo-objects`. Knows nothing of terminals,
//! environment or home directory, and reads no clock and no random source:
//! times and names are passed in. Never holds a whole file, a whole directory
//! or a whole set of objects in memory, and never follows a path out of the
//! directory it was given.

#[cfg(feature = "conformance")]
pub mod conformance;
mod memory;
pub mod store;

pub use memory::MemoryStore;
pub use store::{Commit, Expected, Object, ReferenceUpdate, Store, StoreError, StoreResult};
