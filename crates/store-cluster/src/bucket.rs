//! The files of the store in S3.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_engine::{StoreError, StoreResult};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};

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

    /// Reads the name of a file.
    fn parse(name: &str) -> Option<Self> {
        let number = u128::from_str_radix(name, 16).ok()?;
        let key = Self(number.to_be_bytes());
        (key.to_string() == name).then_some(key)
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

    /// Deletes files. Returns those that do not exist any more, and an error if there
    /// was one.
    pub(crate) async fn delete(
        &self,
        files: &[(i32, FileKey)],
    ) -> (Vec<FileKey>, Option<StoreError>) {
        let paths = files.iter().map(|(tenant, key)| self.path(*tenant, *key));
        let paths: Vec<_> = paths.map(Ok).collect();
        let mut results = self.s3.delete_stream(stream::iter(paths).boxed());
        let (mut deleted, mut failed) = (Vec::new(), None);
        while let Some(result) = results.next().await {
            match result {
                Ok(path) => deleted.extend(path.filename().and_then(FileKey::parse)),
                Err(error) if failed.is_none() => failed = Some(unavailable(error)),
                Err(_) => {}
            }
        }
        (deleted, failed)
    }

    /// Lists the files of a tenant in the order of their keys. `None` for names
    /// that are not those of files.
    pub(crate) fn list(&self, tenant: i32) -> BoxStream<'static, StoreResult<Option<FileKey>>> {
        let folder = Path::from_iter([self.prefix.as_str(), &tenant.to_string()]);
        let listed = self.s3.list(Some(&folder)).map_err(unavailable);
        let key = |path: &Path| path.filename().and_then(FileKey::parse);
        listed.map_ok(move |found| key(&found.location)).boxed()
    }

    /// Lists the tenants that have files.
    pub(crate) async fn tenants(&self) -> StoreResult<Vec<i32>> {
        let prefix = Path::from(self.prefix.as_str());
        let listed = self.s3.list_with_delimiter(Some(&prefix)).await;
        let folders = listed.map_err(unavailable)?.common_prefixes;
        let numbers = folders.iter().filter_map(|folder| folder.filename());
        Ok(numbers.filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether a file exists.
    pub(crate) async fn has(&self, tenant: i32, key: FileKey) -> StoreResult<bool> {
        match self.s3.head(&self.path(tenant, key)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
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
