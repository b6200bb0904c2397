//! Settings of the places of data: the databases of the catalog and the store, the bucket, and
//! the file of the key.

use std::path::{Path, PathBuf};

use elevo_api::parse_size;
use elevo_store_cluster::{BucketOptions, CacheOptions, Credentials};

use crate::config::reader::Reader;
use crate::config::reader::values::{database_url, endpoint, truth};
use crate::config::{CatalogDatabase, StoreDatabase};

impl Reader {
    /// Returns the databases of the catalog and the store.
    pub(super) fn databases(
        &mut self,
        data_dir: &Path,
    ) -> (Option<CatalogDatabase>, Option<StoreDatabase>) {
        let catalog = self.catalog();
        let store = self.store(data_dir);
        if store.is_some() && catalog.is_none() {
            self.problems.push("STORE_URL needs CATALOG_URL".into());
        }
        (catalog, store)
    }

    /// Returns the path of the key file. The file must not be in a directory
    /// that is backed up or copied as a whole: the copy would contain the
    /// secrets together with their key.
    pub(super) fn secrets_key_file(&mut self, data: &Path, workspaces: &Path) -> PathBuf {
        let file = self.path("SECRETS_KEY_FILE");
        let file = file.unwrap_or_else(|| crate::config::secrets_key_file(data));
        let shown = file.display();
        if !file.is_absolute() {
            let problem = format!("SECRETS_KEY_FILE: {shown} is not an absolute path");
            self.problems.push(problem);
        }
        if file.starts_with(data) || file.starts_with(workspaces) {
            let problem = format!("SECRETS_KEY_FILE: {shown} is in DATA_DIR or WORKSPACE_ROOT");
            self.problems.push(problem);
        }
        file
    }

    fn catalog(&mut self) -> Option<CatalogDatabase> {
        let connections = self.number("CATALOG_CONNECTIONS", 16, 2);
        let direct_url = self.get("CATALOG_DIRECT_URL", None, database_url);
        let url = self.get("CATALOG_URL", None, database_url);
        if url.is_none() && direct_url.is_some() {
            let problem = "CATALOG_DIRECT_URL needs CATALOG_URL";
            self.problems.push(problem.into());
        }
        url.map(|url| CatalogDatabase {
            url,
            direct_url,
            connections,
        })
    }

    /// Returns the place of a store in a database and a bucket.
    pub(in crate::config) fn store(&mut self, data_dir: &Path) -> Option<StoreDatabase> {
        let connections = self.number("STORE_CONNECTIONS", 16, 2);
        let url = self.get("STORE_URL", None, database_url);
        let cache = self.store_cache(data_dir);
        let grace = self.seconds("STORE_FILE_GRACE", 86400);
        let bucket = self.bucket();
        match (url, bucket) {
            (None, None) => None,
            (Some(url), Some(bucket)) => Some(StoreDatabase {
                url,
                connections,
                bucket,
                cache,
                grace,
            }),
            _ => {
                let problem = "STORE_URL and S3_BUCKET must be set together";
                self.problems.push(problem.into());
                None
            }
        }
    }

    fn store_cache(&mut self, data_dir: &Path) -> CacheOptions {
        let size = self.get("STORE_CACHE_SIZE", 10 << 30, |text| {
            parse_size(text).map_err(|error| error.to_string())
        });
        CacheOptions {
            memory: self.size("STORE_CACHE_MEMORY", 256 << 20),
            disk: (size > 0).then(|| (data_dir.join("store-cache"), size)),
        }
    }

    fn bucket(&mut self) -> Option<BucketOptions> {
        let credentials = self.credentials();
        let endpoint = self.get("S3_ENDPOINT", None, endpoint);
        let path_style = self.get("S3_PATH_STYLE", endpoint.is_some(), truth);
        let authorities = self.path("S3_CA_FILE").and_then(|path| {
            let read = std::fs::read(&path);
            let failed = |error| format!("S3_CA_FILE: cannot read {}: {error}", path.display());
            read.map_err(|error| self.problems.push(failed(error))).ok()
        });
        let region = self.text("S3_REGION").unwrap_or("us-east-1".into());
        Some(BucketOptions {
            endpoint,
            path_style,
            authorities,
            prefix: self.text("S3_PREFIX").unwrap_or_default(),
            ..BucketOptions::aws(self.text("S3_BUCKET")?, region, credentials)
        })
    }

    /// Returns the source of the credentials of the bucket: the settings, else a
    /// file, else the role of the machine.
    fn credentials(&mut self) -> Credentials {
        let profile = self.text("S3_PROFILE").unwrap_or("default".into());
        match (self.text("S3_ACCESS_KEY"), self.text("S3_SECRET_KEY")) {
            (Some(key), Some(secret)) => return Credentials::Keys { key, secret },
            (None, None) => {}
            _ => {
                let problem = "S3_ACCESS_KEY and S3_SECRET_KEY must be set together";
                self.problems.push(problem.into());
            }
        }
        match self.path("S3_CREDENTIALS_FILE") {
            Some(path) => Credentials::File { path, profile },
            None => Credentials::Instance {
                endpoint: self.get("S3_METADATA_URL", None, endpoint),
            },
        }
    }
}
