//! Options of stores for tests.

#![allow(dead_code, reason = "no test uses everything")]

use std::time::Duration;

use elevo_store_cluster::{BucketOptions, Credentials, Options, migrations};
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use elevo_testkit::wire::Wire;
use object_store::aws::{AmazonS3, AmazonS3Builder};

/// Creates a database with the schema of a store.
pub(crate) fn database() -> Database {
    Database::migrated(&migrations())
}

/// Options for a store in a database and a prefix. Reports often, so that
/// collections of other processes do not wait long.
pub(crate) fn options(database: &Database, s3: &S3) -> Options {
    options_at(database.url(), s3)
}

/// The same for the URL of a database.
pub(crate) fn options_at(database: String, s3: &S3) -> Options {
    let keys = Credentials::Keys {
        key: s3.key.clone(),
        secret: s3.secret.clone(),
    };
    let bucket = BucketOptions {
        prefix: s3.prefix.clone(),
        ..BucketOptions::at(&s3.endpoint, &s3.bucket, keys)
    };
    Options {
        connections: 4,
        beat: Duration::from_millis(50),
        ..Options::new(database, bucket)
    }
}

/// A database, a bucket, and a proxy in front of each.
pub(crate) struct Place {
    pub(crate) database: Database,
    pub(crate) s3: S3,
    pub(crate) sql: Wire,
    pub(crate) files: Wire,
}

impl Place {
    pub(crate) fn new() -> Self {
        let (database, s3) = (database(), S3::new());
        Self {
            sql: database.wire(),
            files: Wire::http(s3.address()),
            database,
            s3,
        }
    }

    /// The bucket without a proxy.
    pub(crate) fn bucket(&self) -> AmazonS3 {
        let s3 = &self.s3;
        let built = AmazonS3Builder::new()
            .with_endpoint(&s3.endpoint)
            .with_bucket_name(&s3.bucket)
            .with_region("us-east-1")
            .with_access_key_id(&s3.key)
            .with_secret_access_key(&s3.secret)
            .with_allow_http(true)
            .build();
        built.expect("the options of the bucket are valid")
    }

    /// Options for a store behind the proxies. It does little in the background.
    pub(crate) fn options(&self) -> Options {
        let mut options = options(&self.database, &self.s3);
        options.database = self.database.url_through(&self.sql);
        options.bucket.endpoint = Some(format!("http://{}", self.files.address()));
        options.check = NEVER;
        options.upkeep = NEVER;
        options
    }
}

/// Longer than any test.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);
