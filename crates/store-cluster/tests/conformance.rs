//! The store on PostgreSQL and S3 keeps the promises of a store.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod alternating;
mod support;

use std::ops::Deref;

use alternating::Alternating;
use elevo_core::TenantId;
use elevo_engine::Store;
use elevo_store_cluster::{ClusterStore, Options};
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use support::options;
use tokio::runtime::Handle;

/// A store, which is deleted with this value.
struct Temporary<T = ClusterStore> {
    store: T,
    _database: Database,
}

impl<T> Deref for Temporary<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.store
    }
}

impl Temporary<Alternating> {
    /// Opens a new store twice.
    fn with_two_handles() -> Self {
        let database = support::database();
        let options = options(&database, &S3::new());
        let open = || Handle::current().block_on(ClusterStore::open(options.clone()));
        let open = || Box::new(open().unwrap()) as Box<dyn Store>;
        let store = Alternating::new([open(), open()]);
        Self {
            store,
            _database: database,
        }
    }
}

impl Temporary {
    /// Opens a new store. The caller is in a Tokio runtime.
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let database = support::database();
        let mut options = options(&database, &S3::new());
        change(&mut options);
        let store = Handle::current().block_on(ClusterStore::open(options));
        Self {
            store: store.unwrap(),
            _database: database,
        }
    }
}

mod through_one_handle {
    elevo_engine::conformance_tests!(|| super::Temporary::new(|_| {}));
}

/// Every object is uploaded to S3.
mod with_nothing_inline {
    elevo_engine::conformance_tests!(|| super::Temporary::new(|options| options.inline_bytes = 0));
}

elevo_engine::inspection_tests!(|| Temporary::new(|_| {}));

/// Every pack moves into S3 as soon as it is made.
mod while_packs_are_bundled_and_files_deleted {
    use std::time::Duration;

    use elevo_store_cluster::BundleOptions;

    elevo_engine::conformance_tests!(|| super::Temporary::new(|options| {
        options.upkeep = Duration::from_millis(2);
        options.grace = Duration::ZERO;
        options.bundle = BundleOptions {
            age: Duration::ZERO,
            bytes: 0,
            oldest: Duration::ZERO,
        };
    }));
}

/// Each call goes to the other handle than the one before.
mod through_two_handles {
    elevo_engine::conformance_tests!(super::Temporary::with_two_handles);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handles_create_the_schema_of_an_empty_database() {
    let database = Database::create();
    let options = options(&database, &S3::new());
    let open = || ClusterStore::open(options.clone());
    let (one, other) = tokio::join!(open(), open());
    let tenant = TenantId::new([1; 16]);
    let _writer = one.unwrap().writing(tenant).await.unwrap();
    assert_eq!(other.unwrap().tenants().await.unwrap(), [tenant]);
}
