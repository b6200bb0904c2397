//! The end of files in S3, and a comparison of the bucket with the database.
//!
//! ```text
//! a file without a live object   its row becomes one of `doomed`: from then on
//!                                nothing can name it again
//! doomed for long enough         it is deleted from S3, then the row
//! ```
//!
//! The same happens to the marks of earlier collections, and to uploads that were
//! not published. A file that no row names is only reported: its row may be in a
//! backup.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use elevo_engine::StoreResult;
use futures::stream::TryStreamExt;

use crate::bucket::FileKey;
use crate::failure::{self, valid};
use crate::steps::{Step, reached};
use crate::store::Inner;

/// Files that are doomed or deleted at a time.
const BATCH: usize = 1000;
/// Time after which a file is deleted whose deletion failed.
const AGAIN: Duration = Duration::from_hours(1);
/// Examples in a comparison.
const EXAMPLES: usize = 10;

/// The files of the database and of the bucket, compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Files in the bucket.
    pub files: u64,
    /// Files with stored objects that are not in the bucket.
    pub missing: u64,
    /// Files in the bucket that the database does not name.
    pub unknown: u64,
    /// Names of some of these.
    pub examples: Vec<String>,
}

impl Compared {
    /// Whether both have the same files.
    pub const fn is_equal(&self) -> bool {
        self.missing == 0 && self.unknown == 0
    }

    fn differ(&mut self, tenant: i32, key: &str, is_missing: bool) {
        match is_missing {
            true => self.missing += 1,
            false => self.unknown += 1,
        }
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{tenant}/{key}"));
        }
    }
}

impl Inner {
    /// Dooms files, and deletes those that were doomed long enough ago. Returns the
    /// number of deleted ones.
    pub(crate) async fn clean(&self) -> StoreResult<usize> {
        loop {
            let doomed: i32 = sqlx::query_scalar("SELECT store.doom_1($1, $2)")
                .bind(self.options.grace)
                .bind(BATCH as i32)
                .fetch_one(&self.pool)
                .await
                .map_err(failure::of)?;
            if doomed < BATCH as i32 {
                break;
            }
        }
        reached(Step::Doomed);
        sqlx::query("SELECT store.tidy_1($1)")
            .bind(10 * BATCH as i32)
            .execute(&self.pool)
            .await
            .map_err(failure::of)?;
        let mut deleted = 0;
        loop {
            let count = self.delete_doomed().await?;
            deleted += count;
            if count < BATCH {
                return Ok(deleted);
            }
        }
    }

    /// Deletes a batch of doomed files. Returns their number.
    async fn delete_doomed(&self) -> StoreResult<usize> {
        let rows: Vec<(i32, Vec<u8>)> = sqlx::query_as(
            "SELECT tenant, key FROM store.doomed WHERE after <= now() ORDER BY after LIMIT $1",
        )
        .bind(BATCH as i64)
        .fetch_all(&self.pool)
        .await
        .map_err(failure::of)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut files = Vec::with_capacity(rows.len());
        for (tenant, key) in &rows {
            files.push((*tenant, valid(FileKey::read(key), "the key of a file")?));
        }
        self.check_bucket().await?;
        let (deleted, failed) = self.bucket.delete(&files).await;
        reached(Step::Deleted);
        let keys: Vec<_> = deleted.iter().map(|key| key.0.to_vec()).collect();
        sqlx::query("DELETE FROM store.doomed WHERE key = ANY ($1)")
            .bind(keys)
            .execute(&self.pool)
            .await
            .map_err(failure::of)?;
        reached(Step::Forgotten);
        let Some(error) = failed else {
            return Ok(files.len());
        };
        // A file that cannot be deleted does not keep the next ones.
        if !deleted.is_empty() {
            let keys: Vec<_> = files.iter().map(|(_, key)| key.0.to_vec()).collect();
            sqlx::query("UPDATE store.doomed SET after = now() + $2 WHERE key = ANY ($1)")
                .bind(keys)
                .bind(AGAIN)
                .execute(&self.pool)
                .await
                .map_err(failure::of)?;
        }
        Err(error)
    }

    /// Compares the files of the database with those of the bucket.
    pub(crate) async fn compare_files(&self) -> StoreResult<Compared> {
        let mut tenants: BTreeSet<i32> = self.bucket.tenants().await?.into_iter().collect();
        let known: Vec<i32> = sqlx::query_scalar("SELECT no FROM store.tenants")
            .fetch_all(&self.pool)
            .await
            .map_err(failure::of)?;
        tenants.extend(known);
        let mut compared = Compared::default();
        for tenant in tenants {
            self.compare_tenant(tenant, &mut compared).await?;
        }
        Ok(compared)
    }

    async fn compare_tenant(&self, tenant: i32, compared: &mut Compared) -> StoreResult<()> {
        let mut listed = self.bucket.list(tenant);
        let mut after = Vec::new();
        loop {
            let mut page = Vec::new();
            while page.len() < BATCH
                && let Some(file) = listed.try_next().await?
            {
                match file {
                    Some(key) => page.push(key),
                    None => compared.differ(tenant, "a name that is not of a file", false),
                }
            }
            // The page after the last one has the rest of the rows.
            let last = (page.len() == BATCH).then(|| page.last().map(|key| key.0.to_vec()));
            let last = last.flatten();
            self.compare_page(tenant, &page, (&after, last.as_deref()), compared)
                .await?;
            match last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    /// Compares a page of the bucket with the rows between two keys. The rows are
    /// read after the page: each file has had one before it was uploaded.
    async fn compare_page(
        &self,
        tenant: i32,
        page: &[FileKey],
        (after, last): (&[u8], Option<&[u8]>),
        compared: &mut Compared,
    ) -> StoreResult<()> {
        compared.files += page.len() as u64;
        let rows: Vec<(Vec<u8>, bool)> = sqlx::query_as(
            "SELECT key, state = 'l' AND live > 0 FROM store.files \
             WHERE tenant = $1 AND key > $2 AND ($3::bytea IS NULL OR key <= $3) \
             UNION ALL SELECT key, false FROM store.doomed \
             WHERE tenant = $1 AND key > $2 AND ($3::bytea IS NULL OR key <= $3)",
        )
        .bind(tenant)
        .bind(after)
        .bind(last)
        .fetch_all(&self.pool)
        .await
        .map_err(failure::of)?;
        let mut rows: BTreeMap<_, _> = rows.into_iter().collect();
        for key in page {
            if rows.remove(key.0.as_slice()).is_none() {
                compared.differ(tenant, &key.to_string(), false);
            }
        }
        for (key, _) in rows.into_iter().filter(|(_, is_needed)| *is_needed) {
            let key = valid(FileKey::read(&key), "the key of a file")?;
            if self.is_missing(tenant, key).await? {
                compared.differ(tenant, &key.to_string(), true);
            }
        }
        Ok(())
    }

    /// Whether a file is needed and not in the bucket. It may have been uploaded
    /// after a page was listed, and may be deleted by now.
    async fn is_missing(&self, tenant: i32, key: FileKey) -> StoreResult<bool> {
        if self.bucket.has(tenant, key).await? {
            return Ok(false);
        }
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM store.files \
                WHERE tenant = $1 AND key = $2 AND state = 'l' AND live > 0)",
        )
        .bind(tenant)
        .bind(key.0.to_vec())
        .fetch_one(&self.pool)
        .await
        .map_err(failure::of)
    }
}
