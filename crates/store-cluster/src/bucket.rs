//! The files of the store in S3.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_engine::{StoreError, StoreResult};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::{Path, PathPart};
use object_store::{
    BackoffConfig, Certificate, ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};

use crate::credentials::Credentials;

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
    /// The source of the credentials.
    pub credentials: Credentials,
    /// Whether the name of the bucket is a part of the path, and not of the host.
    pub path_style: bool,
    /// Certificates, as PEM, of authorities that are trusted besides those of the
    /// system.
    pub authorities: Option<Vec<u8>>,
    /// Time after which a request without progress fails.
    pub timeout: Duration,
    /// Time for which a failed request is repeated.
    pub retry: Duration,
}

impl BucketOptions {
    /// The usual options for a bucket of the service at a URL.
    pub fn at(
        endpoint: impl Into<String>,
        bucket: impl Into<String>,
        credentials: Credentials,
    ) -> Self {
        Self {
            endpoint: Some(endpoint.into()),
            path_style: true,
            ..Self::aws(bucket, "us-east-1", credentials)
        }
    }

    /// The usual options for a bucket of AWS.
    pub fn aws(
        bucket: impl Into<String>,
        region: impl Into<String>,
        credentials: Credentials,
    ) -> Self {
        Self {
            endpoint: None,
            bucket: bucket.into(),
            prefix: String::new(),
            region: region.into(),
            credentials,
            path_style: false,
            authorities: None,
            timeout: Duration::from_secs(30),
            retry: Duration::from_secs(30),
        }
    }
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
        let mut client = ClientOptions::new()
            .with_timeout(options.timeout)
            .with_connect_timeout(options.timeout)
            .with_allow_http(true);
        if let Some(pem) = &options.authorities {
            for certificate in Certificate::from_pem_bundle(pem)? {
                client = client.with_root_certificate(certificate);
            }
        }
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: usize::MAX,
            retry_timeout: options.retry,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&options.bucket)
            .with_region(&options.region)
            .with_virtual_hosted_style_request(!options.path_style)
            .with_client_options(client)
            .with_retry(retry);
        builder = options.credentials.add_to(builder)?;
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        Ok(Self {
            s3: Arc::new(builder.build()?),
            prefix: options.prefix.clone(),
        })
    }

    fn path(&self, tenant: i32, key: FileKey) -> Path {
        self.below(&[&tenant.to_string(), &key.to_string()])
    }

    /// Returns a path below the prefix, which may be empty or have several parts.
    fn below(&self, names: &[&str]) -> Path {
        let prefix = Path::from(self.prefix.as_str());
        let names = names.iter().map(|name| PathPart::from(*name));
        prefix.parts().chain(names).collect()
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
        let folder = self.below(&[&tenant.to_string()]);
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
        self.read(&self.path(tenant, key)).await
    }

    async fn read(&self, path: &Path) -> StoreResult<Option<Bytes>> {
        let found = match self.s3.get(path).await {
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

impl Bucket {
    fn mark(&self) -> Path {
        self.below(&["STORE"])
    }

    /// Writes, reads and deletes a file.
    pub(crate) async fn try_out(&self) -> StoreResult<()> {
        let path = self.below(&[&format!("TRY-{}", FileKey::random())]);
        let payload = PutPayload::from_static(b"elevo");
        self.s3.put(&path, payload).await.map_err(unavailable)?;
        let read = self.read(&path).await;
        self.s3.delete(&path).await.map_err(unavailable)?;
        match read?.as_deref() {
            Some(b"elevo") => Ok(()),
            _ => Err(StoreError::Damaged(
                "a file of the bucket has other bytes than were written".into(),
            )),
        }
    }

    /// Returns the file that says which store the bucket belongs to.
    pub(crate) async fn read_mark(&self) -> StoreResult<Option<Bytes>> {
        self.read(&self.mark()).await
    }

    pub(crate) async fn write_mark(&self, mark: Bytes) -> StoreResult<()> {
        let put = self
            .s3
            .put(&self.mark(), PutPayload::from_bytes(mark))
            .await;
        put.map(drop).map_err(unavailable)
    }
}

fn unavailable(error: object_store::Error) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}
