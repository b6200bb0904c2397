//! Measures of the store on PostgreSQL and S3.

pub(super) mod collection;
pub(super) mod commit;
pub(super) mod committers;
pub(super) mod index;
pub(super) mod large;
mod peer;
pub(super) mod read;

use std::time::Duration;

use anyhow::{Context, Result};
use elevo_store_cluster::{BucketOptions, ClusterStore, Credentials, Options};
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;

use super::fixture;

/// The usual options for a store in a database and a prefix.
fn options(database: String, s3: &S3) -> Options {
    let keys = Credentials::Keys {
        key: s3.key.clone(),
        secret: s3.secret.clone(),
    };
    let bucket = BucketOptions {
        prefix: s3.prefix.clone(),
        timeout: Duration::from_secs(60),
        retry: Duration::from_secs(60),
        ..BucketOptions::at(&s3.endpoint, &s3.bucket, keys)
    };
    Options::new(database, bucket)
}

/// A database and a prefix in a bucket.
pub(super) struct Place {
    pub(super) database: Database,
    pub(super) s3: S3,
}

impl Place {
    pub(super) fn new() -> Result<Self> {
        let database = fixture::database()?;
        std::env::var("ELEVO_S3").context(
            "ELEVO_S3 is not set; run scripts/services up s3 && eval \"$(scripts/services env s3)\"",
        )?;
        let s3 = S3::new();
        Ok(Self { database, s3 })
    }

    async fn open(&self, change: impl FnOnce(&mut Options)) -> Result<ClusterStore> {
        let mut options = options(self.database.url(), &self.s3);
        change(&mut options);
        let opened = ClusterStore::open(options).await;
        opened.context("cannot open the store")
    }
}
