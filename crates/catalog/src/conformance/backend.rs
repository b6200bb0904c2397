use std::future::Future;

use crate::catalog::Catalog;

/// A database with one catalog.
pub trait Backend: Sync {
    /// The implementation to test.
    type Catalog: Catalog;

    /// Opens the catalog; a further call opens it as another process would.
    fn open(&self) -> impl Future<Output = Self::Catalog> + Send;
}
