//! Calls of the libraries, and names that they leave out.

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
