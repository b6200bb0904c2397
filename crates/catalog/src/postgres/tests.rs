//! The conformance suite on PostgreSQL, and tests of PostgreSQL alone.

mod concurrency;
mod examine;
mod faults;
mod follower;
mod locks;
mod loss;
mod migrations;
mod plans;
mod pooler;
mod processes;
mod schema;
mod trips;

use std::time::Duration;

use elevo_testkit::postgres::Database;
use elevo_testkit::wire::Wire;

use super::{PostgresCatalog, PostgresOptions};
use crate::conformance::Backend;
use crate::races::Shared;

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

    /// Opens the catalog with its calls on one connection through a proxy. The
    /// background tasks do not use the proxy.
    async fn open_through(&self, wire: &Wire) -> PostgresCatalog {
        let options = PostgresOptions {
            connections: 1,
            direct: Some(self.0.url()),
            check: Duration::MAX,
            ..PostgresOptions::default()
        };
        let url = self.0.url_through(wire);
        PostgresCatalog::open(&url, &options).await.unwrap()
    }
}

impl Backend for Temporary {
    type Catalog = PostgresCatalog;

    async fn open(&self) -> PostgresCatalog {
        Self::open_at(&self.0.url()).await
    }
}

impl Shared for Temporary {
    fn place(&self) -> String {
        self.0.url()
    }

    async fn open_at(place: &str) -> PostgresCatalog {
        Self::open_at(place).await
    }
}

crate::conformance_tests!(Temporary::new());
crate::races::race_tests!(Temporary::new());
