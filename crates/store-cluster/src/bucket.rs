//! The files of the store in S3.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_engine::{StoreError, StoreResult};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStoreExt, PutPayload, RetryConfig};

/// The place of a store's files.
#[derive(Clone)]
pub struct BucketOptions {
    /// URL of the service, for example `http://127.0.0.1:8333`. `None` for AWS.
    pub endpoint: Option<String>,
    /// Name of the bucket.
    pub bucket: String,
    /// First part of the names of all files; may be empty.
    pub prefix: String,
    /// Region of the bucket.
    pub region: String,
    /// Access key.
    pub key: String,
    /// Secret of the access key.
    pub secret: String,
    /// Time after which a request without progress fails.
    pub timeout: Duration,
    /// Time for which a failed request is repeated.
    pub retry: Duration,
}

impl fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketOptions")
            .field("endpoint", &self.endpoint)
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Key of a file. It is random and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey(pub(crate) [u8; 16]);

impl FileKey {
    #[expect(
        clippy::disallowed_methods,
        reason = "it must differ from the keys of other processes"
    )]
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bucket.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    s3: Arc<AmazonS3>,
    prefix: String,
}

impl Bucket {
    pub(crate) fn open(options: &BucketOptions) -> Result<Self, object_store::Error> {
        // Without effect if the process has chosen one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ClientOptions::new()
            .with_timeout(options.timeout)
            .with_connect_timeout(options.timeout)
            .with_allow_http(true);
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: usize::MAX,
            retry_timeout: options.retry,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&options.bucket)
            .with_region(&options.region)
            .with_access_key_id(&options.key)
            .with_secret_access_key(&options.secret)
            .with_client_options(client)
            .with_retry(retry);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        Ok(Self {
            s3: Arc::new(builder.build()?),
            prefix: options.prefix.clone(),
        })
    }

    fn path(&self, tenant: i32, key: FileKey) -> Path {
        Path::from_iter([self.prefix.as_str(), &tenant.to_string(), &key.to_string()])
    }

    pub(crate) async fn put(&self, tenant: i32, key: FileKey, bytes: Bytes) -> StoreResult<()> {
        let payload = PutPayload::from_bytes(bytes);
        let put = self.s3.put(&self.path(tenant, key), payload).await;
        put.map(drop).map_err(unavailable)
    }

    /// Returns a range of a file; `None` if the file does not exist or is
    /// shorter.
    pub(crate) async fn range(
        &self,
        tenant: i32,
        key: FileKey,
        range: Range<u64>,
    ) -> StoreResult<Option<Bytes>> {
        let length = range.end - range.start;
        match self.s3.get_range(&self.path(tenant, key), range).await {
            Ok(found) => Ok(Some(found).filter(|found| found.len() as u64 == length)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Returns a whole file; `None` if there is none.
    pub(crate) async fn get(&self, tenant: i32, key: FileKey) -> StoreResult<Option<Bytes>> {
        let found = match self.s3.get(&self.path(tenant, key)).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        match found {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }
}

fn unavailable(error: object_store::Error) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}
