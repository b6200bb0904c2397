//! Which database and bucket belong together, and which servers use them.
//!
//! ```text
//! database   a row of `identity`      id, epoch, and the stamp of the servers
//! bucket     the file PREFIX/STORE    id, epoch
//!
//! elevo store 1
//! id 00112233445566778899aabbccddeeff
//! epoch 12
//! ```
//!
//! A store deletes files that its database does not need. With the bucket of
//! another store, or with an older copy of its database, it would delete files
//! that are needed. So it opens only with its bucket, and unless the bucket has a
//! greater epoch. It compares them again before it deletes: when a copy of the
//! database has taken over the bucket, the original deletes nothing any more.
//!
//! Every process increments the epoch first in the database, and reads it first in
//! the bucket. So a process that compares them while another one opens the store
//! never finds a greater epoch in the bucket.

use std::fmt;
use std::time::Duration;

use elevo_engine::{ServerStamp, StoreError, StoreResult};
use elevo_postgres::{Change, Pool};
use sqlx::PgConnection;

use crate::bucket::Bucket;
use crate::failure::{self, valid};
use crate::open::OpenError;
use crate::store::{ClusterStore, Inner};

const WORDS: &str = "elevo store 1";
/// Time between two increments of the epoch while a store is open. A copy of the
/// database that is younger than this is taken for the original.
const GROWTH: Duration = Duration::from_secs(50);

/// The id of a store.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Id([u8; 16]);

impl Id {
    fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(text, 16).ok()?;
        let id = Self(number.to_be_bytes());
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The id and the epoch of a database or a bucket.
#[derive(Clone, Copy)]
struct Mark {
    id: Id,
    epoch: i64,
}

impl Mark {
    fn text(self) -> String {
        let Self { id, epoch } = self;
        format!("{WORDS}\nid {id}\nepoch {epoch}\n")
    }

    /// Accepts only the output of [`Self::text`].
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        lines.next().filter(|line| *line == WORDS)?;
        let mark = Self {
            id: Id::parse(lines.next()?.strip_prefix("id ")?)?,
            epoch: lines.next()?.strip_prefix("epoch ")?.parse().ok()?,
        };
        (mark.text() == text).then_some(mark)
    }
}

/// A store that exists, as it was found.
#[derive(Clone, Debug)]
pub struct FoundStore {
    /// The servers that use it, if any do.
    pub stamp: Option<ServerStamp>,
    /// Whether a tenant has ever stored something.
    pub has_tenants: bool,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Vec<u8>,
    epoch: i64,
    installation: Option<String>,
    generation: Option<i64>,
    has_tenants: bool,
}

const ROW: &str = "SELECT id, epoch, installation, generation, \
    EXISTS (SELECT FROM store.tenants) AS has_tenants FROM store.identity";

impl Row {
    fn mark(&self) -> StoreResult<Mark> {
        let id = self.id.as_slice().try_into().ok().map(Id);
        Ok(Mark {
            id: valid(id, "the id of the store")?,
            epoch: self.epoch,
        })
    }

    fn stamp(&self) -> StoreResult<Option<ServerStamp>> {
        let Some(installation) = self.installation.clone() else {
            return Ok(None);
        };
        let generation = self.generation.and_then(|number| number.try_into().ok());
        Ok(Some(ServerStamp {
            installation,
            generation: valid(generation, "the generation of the store")?,
        }))
    }
}

/// Reads a store without a change. `None` if the database has none.
pub(crate) async fn find(
    connection: &mut PgConnection,
    bucket: &Bucket,
    adopts: bool,
) -> Result<Option<FoundStore>, OpenError> {
    let table: Option<String> = sqlx::query_scalar("SELECT to_regclass('store.identity')::text")
        .fetch_one(&mut *connection)
        .await
        .map_err(failure::of)?;
    if table.is_none() {
        return Ok(None);
    }
    let (row, _) = compare(Database::One(connection), bucket, adopts).await?;
    Ok(Some(FoundStore {
        stamp: row.stamp()?,
        has_tenants: row.has_tenants,
    }))
}

/// Returns the mark of a bucket, if it has one.
async fn read_mark(bucket: &Bucket) -> Result<Option<Mark>, OpenError> {
    let Some(bytes) = bucket.read_mark().await? else {
        return Ok(None);
    };
    let mark = std::str::from_utf8(&bytes).ok().and_then(Mark::parse);
    mark.map(Some).ok_or(OpenError::UnknownBucket)
}

/// The database of a store, before or after it was opened.
enum Database<'a> {
    One(&'a mut PgConnection),
    Pool(&'a Pool),
}

impl Database<'_> {
    async fn row(&mut self) -> StoreResult<Row> {
        let query = sqlx::query_as(ROW);
        let row = match self {
            Self::One(connection) => query.fetch_one(&mut **connection).await,
            Self::Pool(pool) => query.fetch_one(*pool).await,
        };
        row.map_err(failure::of)
    }
}

/// Compares a bucket with its database. Returns the row of the database, and the
/// greater one of the two epochs.
async fn compare(
    mut database: Database<'_>,
    bucket: &Bucket,
    adopts: bool,
) -> Result<(Row, i64), OpenError> {
    let mut is_again = false;
    loop {
        let mark = read_mark(bucket).await?;
        let row = database.row().await?;
        match check(&row, mark, adopts) {
            // Another process may have created the store between the two reads.
            Err(OpenError::NoMark) if !is_again => is_again = true,
            checked => return checked.map(|epoch| (row, epoch)),
        }
    }
}

/// Fails if the bucket is not that of the database. Returns the greater epoch.
fn check(row: &Row, bucket: Option<Mark>, adopts: bool) -> Result<i64, OpenError> {
    let own = row.mark()?;
    match bucket {
        None if row.has_tenants && !adopts => Err(OpenError::NoMark),
        None => Ok(own.epoch),
        Some(mark) if mark.id != own.id => Err(OpenError::ForeignBucket),
        Some(mark) if mark.epoch > own.epoch && !adopts => Err(OpenError::OlderDatabase {
            found: own.epoch,
            known: mark.epoch,
        }),
        Some(mark) => Ok(own.epoch.max(mark.epoch)),
    }
}

/// Checks that the bucket is that of the database, and increments the epoch of
/// both.
pub(crate) async fn claim(pool: &Pool, bucket: &Bucket, adopts: bool) -> Result<(), OpenError> {
    let (row, known) = compare(Database::Pool(pool), bucket, adopts).await?;
    let epoch: i64 = sqlx::query_scalar(
        "UPDATE store.identity SET epoch = greatest(epoch, $1) + 1, grown = now() RETURNING epoch",
    )
    .bind(known)
    .fetch_one(pool)
    .await
    .map_err(failure::of)?;
    let id = row.mark()?.id;
    // Another process may have written a greater epoch before. The next increment
    // repairs that.
    bucket.write_mark(Mark { id, epoch }.text().into()).await?;
    Ok(())
}

/// The stamp of a store, which no other process can change until this is dropped.
#[derive(Debug)]
pub struct LockedStamp {
    change: Change,
    stamp: Option<ServerStamp>,
}

impl LockedStamp {
    /// The stamp, if a server has used the store.
    pub const fn stamp(&self) -> Option<&ServerStamp> {
        self.stamp.as_ref()
    }

    /// Replaces the stamp. The new one is durable when this returns.
    pub async fn set(mut self, stamp: &ServerStamp) -> StoreResult<()> {
        sqlx::query("UPDATE store.identity SET installation = $1, generation = $2")
            .bind(&stamp.installation)
            .bind(i64::try_from(stamp.generation).unwrap_or(i64::MAX))
            .execute(&mut *self.change)
            .await
            .map_err(failure::of)?;
        self.change.commit().await.map_err(failure::of)
    }
}

impl ClusterStore {
    /// Returns the stamp of the servers that use the store, if any do.
    pub async fn stamp(&self) -> StoreResult<Option<ServerStamp>> {
        Database::Pool(&self.0.pool).row().await?.stamp()
    }

    /// Waits until no other process changes the stamp, and keeps it.
    pub async fn lock_stamp(&self) -> StoreResult<LockedStamp> {
        let mut change = self.0.pool.begin("BEGIN").await.map_err(failure::of)?;
        sqlx::query("SELECT FROM store.identity FOR UPDATE")
            .execute(&mut *change)
            .await
            .map_err(failure::of)?;
        let row: Row = sqlx::query_as(ROW)
            .fetch_one(&mut *change)
            .await
            .map_err(failure::of)?;
        let stamp = row.stamp()?;
        Ok(LockedStamp { change, stamp })
    }
}

impl Inner {
    /// Fails if another database has taken over the bucket. From then on this one
    /// must delete nothing from it.
    pub(crate) async fn check_bucket(&self) -> StoreResult<()> {
        let checked = compare(Database::Pool(&self.pool), &self.bucket, false).await;
        match checked {
            Ok(_) => Ok(()),
            Err(OpenError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::Refused(error.to_string())),
        }
    }

    /// Increments the epoch if it was not for a while.
    pub(crate) async fn grow_when_due(&self) -> StoreResult<()> {
        let is_due: bool = sqlx::query_scalar("SELECT grown < now() - $1 FROM store.identity")
            .bind(GROWTH)
            .fetch_one(&self.pool)
            .await
            .map_err(failure::of)?;
        if !is_due {
            return Ok(());
        }
        match claim(&self.pool, &self.bucket, false).await {
            Ok(()) => Ok(()),
            Err(OpenError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::Refused(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_mark_that_was_cut_off_or_changed() {
        let mark = Mark {
            id: Id([0xab; 16]),
            epoch: 12,
        };
        let text = mark.text();
        assert_eq!(Mark::parse(&text).unwrap().epoch, 12);
        for end in 0..text.len() {
            assert!(Mark::parse(&text[..end]).is_none(), "{end}");
        }
        for other in ["epoch +12\n", "epoch 012\n", "epoch 12\n\n"] {
            assert!(Mark::parse(&text.replace("epoch 12\n", other)).is_none());
        }
    }
}
