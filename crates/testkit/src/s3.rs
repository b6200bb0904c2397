//! The S3 server that `scripts/services` starts for tests.

use std::env;
use std::net::SocketAddr;

/// The S3 server, with a prefix for one test.
#[derive(Clone, Debug)]
pub struct S3 {
    /// URL of the service.
    pub endpoint: String,
    /// Name of the bucket.
    pub bucket: String,
    /// Prefix of the names of this test's files.
    pub prefix: String,
    /// Access key.
    pub key: String,
    /// Secret of the access key.
    pub secret: String,
}

impl S3 {
    /// Returns the server, and a new prefix.
    pub fn new() -> Self {
        let url = setting("ELEVO_S3");
        let (endpoint, bucket) = url.rsplit_once('/').expect("ELEVO_S3 names a bucket");
        Self {
            endpoint: endpoint.to_owned(),
            bucket: bucket.to_owned(),
            prefix: format!("test-{:016x}", rand::random::<u64>()),
            key: setting("ELEVO_S3_KEY"),
            secret: setting("ELEVO_S3_SECRET"),
        }
    }

    /// The address of the service, for a proxy.
    pub fn address(&self) -> SocketAddr {
        let address = self.endpoint.strip_prefix("http://");
        let address = address.and_then(|address| address.parse().ok());
        address.expect("ELEVO_S3 has an IP address and a port")
    }
}

impl Default for S3 {
    fn default() -> Self {
        Self::new()
    }
}

fn setting(name: &str) -> String {
    let value = env::var(name).unwrap_or_default();
    assert!(
        !value.is_empty(),
        "{name} is not set: this test needs a separate S3 server. Run\n    \
         scripts/services up s3 && eval \"$(scripts/services env s3)\""
    );
    value
}
