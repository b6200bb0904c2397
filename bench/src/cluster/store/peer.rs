//! The peers: a bare statement that writes the rows of a commit, and bare uploads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStoreExt, PutPayload};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::Place;

/// Uploads at once, as by the store.
const AT_ONCE: usize = 4;

/// The rows of a commit in one statement, which decides nothing.
const BARE: &str = "WITH packed AS ( \
        INSERT INTO store.packs (tenant, id, size, objects, live, removals, bytes) \
        VALUES ($1, $2, $3, $4, $4, 0, $5)), \
    indexed AS ( \
        INSERT INTO store.objects (pack, tenant, start, size, seen, place, kind, hash) \
        SELECT $2, $1, o.start, o.size, 0, o.place, o.kind, o.hash \
        FROM unnest($6::int4[], $7::int4[], $8::int2[], $9::\"char\"[], $10::bytea[]) \
            AS o (start, size, place, kind, hash)), \
    made AS ( \
        INSERT INTO store.snapshots (tenant, seen, id, root, record) \
        VALUES ($1, 0, $11, $11, $12)) \
    UPDATE store.refs SET snapshot = $11 WHERE tenant = $1";

/// The rows of one commit.
#[derive(sqlx::FromRow)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    starts: Vec<i32>,
    sizes: Vec<i32>,
    places: Vec<i16>,
    kinds: Vec<i8>,
    hashes: Vec<Vec<u8>>,
    record: Vec<u8>,
}

impl Rows {
    pub(super) fn pack_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Bare statements on a pool of their own, with a ref of their own tenant.
pub(super) struct Statements {
    pool: PgPool,
    tenant: i32,
    last: i64,
}

impl Statements {
    /// `tenant` is a number that the store does not use.
    pub(super) async fn open(url: &str, tenant: i32) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .test_before_acquire(false)
            .connect(url)
            .await?;
        sqlx::query("INSERT INTO store.refs VALUES ($1, 'main', '')")
            .bind(tenant)
            .execute(&pool)
            .await?;
        Ok(Self {
            pool,
            tenant,
            last: 0,
        })
    }

    /// The rows of the last commit of the store.
    pub(super) async fn last_rows(&self) -> Result<Rows> {
        let rows = sqlx::query_as(
            "SELECT p.bytes, array_agg(o.start) AS starts, array_agg(o.size) AS sizes, \
                 array_agg(o.place) AS places, array_agg(o.kind) AS kinds, array_agg(o.hash) AS hashes, \
                 (SELECT record FROM store.snapshots WHERE tenant <> $1 ORDER BY made DESC LIMIT 1) AS record \
             FROM store.packs AS p JOIN store.objects AS o ON o.tenant = p.tenant AND o.pack = p.id \
             WHERE p.tenant <> $1 AND p.file IS NULL AND p.tenant < 1000 \
                 AND p.id = (SELECT id FROM store.packs WHERE file IS NULL AND tenant < 1000 \
                     ORDER BY made DESC LIMIT 1) \
             GROUP BY p.bytes",
        );
        let rows = rows.bind(self.tenant).fetch_optional(&self.pool).await?;
        rows.context("the commit has no rows")
    }

    /// Writes rows like those, with other keys; returns the time.
    pub(super) async fn write(&mut self, rows: &Rows) -> Result<f64> {
        self.last += 1;
        let fresh = |bytes: &[u8]| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(bytes).update(&self.last.to_le_bytes());
            hasher.update(&self.tenant.to_le_bytes());
            hasher.finalize().as_bytes().to_vec()
        };
        let mut hashes: Vec<_> = rows.hashes.iter().map(|hash| fresh(hash)).collect();
        hashes.sort();
        let id = fresh(&rows.record);
        let began = Instant::now();
        let done = sqlx::query(BARE)
            .bind(self.tenant)
            .bind(self.last)
            .bind(rows.bytes.len() as i32)
            .bind(hashes.len() as i32)
            .bind(&rows.bytes)
            .bind(&rows.starts)
            .bind(&rows.sizes)
            .bind(&rows.places)
            .bind(&rows.kinds)
            .bind(&hashes)
            .bind(&id)
            .bind(&rows.record)
            .execute(&self.pool)
            .await?;
        let seconds = began.elapsed().as_secs_f64();
        ensure!(done.rows_affected() == 1, "the bare statement found no ref");
        Ok(seconds)
    }
}

/// A client of the bucket without a store.
#[derive(Clone)]
pub(super) struct Uploads(Arc<AmazonS3>, String);

impl Uploads {
    pub(super) fn open(place: &Place) -> Result<Self> {
        Self::at(place, &place.s3.endpoint)
    }

    /// Reaches the bucket through a proxy.
    pub(super) fn at(place: &Place, endpoint: &str) -> Result<Self> {
        let s3 = &place.s3;
        let client = ClientOptions::new()
            .with_allow_http(true)
            .with_timeout(Duration::from_secs(60));
        let client = AmazonS3Builder::new()
            .with_endpoint(endpoint)
            .with_bucket_name(&s3.bucket)
            .with_region("us-east-1")
            .with_access_key_id(&s3.key)
            .with_secret_access_key(&s3.secret)
            .with_client_options(client)
            .build()?;
        Ok(Self(Arc::new(client), format!("{}-bare", s3.prefix)))
    }

    /// Uploads files, four at a time; returns the time.
    pub(super) async fn put(&self, name: &str, files: Vec<Bytes>) -> Result<f64> {
        let began = Instant::now();
        stream::iter(files.into_iter().enumerate())
            .map(|(number, bytes)| async move {
                let path = Path::from(format!("{}/{name}/{number}", self.1));
                self.0.put(&path, PutPayload::from_bytes(bytes)).await
            })
            .buffer_unordered(AT_ONCE)
            .try_for_each(async |_| Ok(()))
            .await?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Downloads files that were uploaded, `at_once` at a time; returns the time.
    pub(super) async fn get(&self, name: &str, files: usize, at_once: usize) -> Result<f64> {
        let began = Instant::now();
        stream::iter(0..files)
            .map(|number| async move {
                let path = Path::from(format!("{}/{name}/{number}", self.1));
                self.0.get(&path).await?.bytes().await
            })
            .buffer_unordered(at_once)
            .try_for_each(async |_| Ok(()))
            .await?;
        Ok(began.elapsed().as_secs_f64())
    }
}
