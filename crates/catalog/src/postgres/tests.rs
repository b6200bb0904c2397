//! The conformance suite on PostgreSQL, and tests of PostgreSQL alone.

mod concurrency;
mod faults;
mod plans;
mod schema;
mod trips;

use elevo_testkit::postgres::Database;

use super::{PostgresCatalog, PostgresOptions};
use crate::conformance::Backend;

/// A separate database, which is deleted with this value.
struct Temporary(Database);

impl Temporary {
    fn new() -> Self {
        Self(Database::create())
    }

    async fn open_at(url: &str) -> PostgresCatalog {
        let options = PostgresOptions::default();
        PostgresCatalog::open(url, &options).await.unwrap()
    }
}

impl Backend for Temporary {
    type Catalog = PostgresCatalog;

    async fn open(&self) -> PostgresCatalog {
        Self::open_at(&self.0.url()).await
    }
}

crate::conformance_tests!(Temporary::new());
