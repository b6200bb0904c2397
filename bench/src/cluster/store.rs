//! Measures of the store on PostgreSQL and S3.

pub(super) mod commit;
pub(super) mod committers;
pub(super) mod index;
pub(super) mod large;
mod peer;
pub(super) mod read;

use std::time::Duration;

use anyhow::{Context, Result};
use elevo_store_cluster::{BucketOptions, ClusterStore, Options};
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;

use super::fixture;

/// A database and a prefix in a bucket.
struct Place {
    database: Database,
    s3: S3,
}

impl Place {
    fn new() -> Result<Self> {
        let database = fixture::database()?;
        std::env::var("ELEVO_S3").context(
            "ELEVO_S3 is not set; run scripts/services up s3 && eval \"$(scripts/services env s3)\"",
        )?;
        let s3 = S3::new();
        Ok(Self { database, s3 })
    }

    fn options(&self) -> Options {
        let bucket = BucketOptions {
            endpoint: Some(self.s3.endpoint.clone()),
            bucket: self.s3.bucket.clone(),
            prefix: self.s3.prefix.clone(),
            region: "us-east-1".into(),
            key: self.s3.key.clone(),
            secret: self.s3.secret.clone(),
            timeout: Duration::from_secs(60),
            retry: Duration::from_secs(60),
        };
        Options::new(self.database.url(), bucket)
    }

    async fn open(&self, change: impl FnOnce(&mut Options)) -> Result<ClusterStore> {
        let mut options = self.options();
        change(&mut options);
        let opened = ClusterStore::open(options).await;
        opened.context("cannot open the store")
    }
}
