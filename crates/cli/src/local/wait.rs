//! Runs async calls of the libraries, and lists the names that snapshots never
//! contain.

use elevo_core::Name;

/// Runs an async call of the libraries to its end. The local store never
/// suspends.
pub(crate) fn wait<T>(call: impl Future<Output = T>) -> T {
    futures::executor::block_on(call)
}

/// Names that snapshots never contain, at any depth.
pub(crate) fn left_out() -> Vec<Name> {
    vec![Name::reserved()]
}
