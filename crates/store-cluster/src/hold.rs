//! Holding snapshots, and opening them: a hold of an unknown snapshot returns its
//! record, and learns the place of its root.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use elevo_engine::{Guard, Held, StoreError, StoreResult};
use elevo_objects::{Snapshot, SnapshotId};
use tokio::time::sleep;

use crate::blocks::StoredFile;
use crate::failure;
use crate::places::Epoch;
use crate::read::{Index, Row};
use crate::snapshots::{decode_snapshot, snapshot_ids};
use crate::store::Inner;

/// Pause before a hold looks again at a snapshot that a collection is about to
/// decide on.
const UNDECIDED: Duration = Duration::from_millis(20);
/// Maximum number of snapshots of a call whose roots are looked for.
const OPENED: usize = 4;
/// Packs of nodes whose indexes are read with a root: those that were made last
/// before that of the root, among so many ids. The process gave an id to each
/// pack and to each file of its import. Together with the root and the index of the
/// pack that it is in, these are as many requests as are made at once.
const INDEXES: i64 = 6;
const IDS: i64 = 4096;

const HOLD: &str = "SELECT s.id, s.record, s.condemned IS NOT NULL AS is_condemned, \
        gc.phase <> 'm' AS is_sweeping, n.state <> 'l' AS is_lost, o.hash IS NOT NULL AS has_root, \
        coalesce(o.hash, '') AS hash, coalesce(o.kind, 'x') AS kind, coalesce(o.start, 0) AS start, \
        coalesce(o.size, 0) AS size, coalesce(o.pack, 0) AS pack, coalesce(p.base, 0) AS base, \
        coalesce(p.size, 0) AS pack_size, coalesce(p.objects, 0) AS objects, \
        coalesce(p.live = p.objects OR p.removals = gc.removals, false) AS is_whole, \
        gc.phase = 'i' AS is_idle, f.key AS file, f.size AS file_size, p.bytes AS whole, \
        NULL::bytea AS part, near.packs, near.bases, near.sizes, near.counts, near.files, near.lengths \
    FROM store.gc JOIN store.nodes AS n ON n.id = $3 \
    JOIN store.snapshots AS s ON s.tenant = $1 AND s.id = ANY ($2) \
    LEFT JOIN store.objects AS o ON o.tenant = $1 AND o.hash = s.root AND $4 \
    LEFT JOIN store.packs AS p ON p.tenant = $1 AND p.id = o.pack \
    LEFT JOIN store.files AS f ON f.id = p.file \
    LEFT JOIN LATERAL ( \
        SELECT array_agg(one.id) AS packs, array_agg(one.base) AS bases, array_agg(one.size) AS sizes, \
            array_agg(one.objects) AS counts, array_agg(file.key) AS files, \
            array_agg(file.size) AS lengths \
        FROM (SELECT * FROM store.packs AS q \
            WHERE q.tenant = $1 AND q.id < p.id AND q.id > p.id - $6 AND q.nodes \
                AND (q.live = q.objects OR q.removals = gc.removals) \
            ORDER BY q.id DESC LIMIT $5) AS one \
        JOIN store.files AS file ON file.id = one.file) AS near ON p.nodes \
    WHERE gc.tenant = $1";

/// A snapshot as the database knows it.
#[derive(sqlx::FromRow)]
struct Opened {
    id: Vec<u8>,
    record: Vec<u8>,
    is_condemned: bool,
    is_sweeping: bool,
    is_lost: bool,
    has_root: bool,
    /// The place of its root, if it has one.
    #[sqlx(flatten)]
    root: Row,
    #[sqlx(flatten)]
    near: Near,
}

/// The packs of nodes near that of a root, as columns.
#[derive(sqlx::FromRow)]
struct Near {
    packs: Option<Vec<i64>>,
    bases: Option<Vec<i64>>,
    sizes: Option<Vec<i32>>,
    counts: Option<Vec<i32>>,
    files: Option<Vec<Vec<u8>>>,
    lengths: Option<Vec<i64>>,
}

impl Near {
    fn indexes(self, tenant: i32) -> StoreResult<Vec<Index>> {
        let places = self.packs.into_iter().zip(self.bases);
        let places = places.flat_map(|(packs, bases)| packs.into_iter().zip(bases));
        let sizes = self.sizes.into_iter().zip(self.counts);
        let sizes = sizes.flat_map(|(sizes, counts)| sizes.into_iter().zip(counts));
        let files = self.files.into_iter().zip(self.lengths);
        let files = files.flat_map(|(files, lengths)| files.into_iter().zip(lengths));
        let each = places.zip(sizes).zip(files);
        let read = |((place, size), (key, length)): (_, (Vec<u8>, i64))| {
            let file = StoredFile::of_row(tenant, &key, length)?;
            Ok(Index::new(file, place, size))
        };
        each.map(read).collect()
    }
}

impl Inner {
    pub(crate) async fn hold(&self, tenant: i32, ids: &[SnapshotId]) -> StoreResult<Option<Held>> {
        // Registered first: a collection that condemns one of them later asks
        // this process.
        let holding = self.node.guards.hold(tenant, ids);
        let epoch = self.node.places.epoch(tenant);
        let snapshots = match self.known_snapshots(epoch, ids)? {
            Some(known) => Some(known),
            None => self.open_snapshots(epoch, tenant, ids).await?,
        };
        Ok(snapshots.map(|snapshots| Held {
            guard: Guard::new(holding),
            snapshots,
        }))
    }

    /// Returns snapshots whose records are all kept.
    fn known_snapshots(
        &self,
        epoch: Epoch,
        ids: &[SnapshotId],
    ) -> StoreResult<Option<Vec<Snapshot>>> {
        if !self.node.is_sure() {
            return Ok(None);
        }
        let records = ids.iter().map(|id| self.node.places.record(epoch, *id));
        let records: Option<Vec<Bytes>> = records.collect();
        let decode = |records: Vec<Bytes>| records.iter().map(decode_snapshot).collect();
        records.map(decode).transpose()
    }

    async fn open_snapshots(
        &self,
        epoch: Epoch,
        tenant: i32,
        ids: &[SnapshotId],
    ) -> StoreResult<Option<Vec<Snapshot>>> {
        loop {
            let rows: Vec<Opened> = sqlx::query_as(HOLD)
                .bind(tenant)
                .bind(snapshot_ids(ids))
                .bind(self.node.id)
                .bind(ids.len() <= OPENED)
                .bind(INDEXES)
                .bind(IDS)
                .fetch_all(&self.pool)
                .await
                .map_err(failure::of)?;
            let mut is_undecided = false;
            let mut found = HashMap::with_capacity(rows.len());
            for row in rows {
                if row.is_lost {
                    return self.node.note(Err(StoreError::Lost));
                }
                match (row.is_condemned, row.is_sweeping) {
                    (true, true) => return Ok(None),
                    // Another process may veto.
                    (true, false) => is_undecided = true,
                    (false, _) => {
                        let id = failure::id(&row.id)?;
                        let record = Bytes::from(row.record);
                        found.insert(id, decode_snapshot(&record)?);
                        self.node.places.keep_record(epoch, id, record);
                        if row.has_root {
                            let near = row.near.indexes(tenant)?;
                            self.learn_root(epoch, tenant, row.root, near)?;
                        }
                    }
                }
            }
            if !is_undecided {
                return Ok(ids.iter().map(|id| found.get(id).cloned()).collect());
            }
            sleep(UNDECIDED).await;
        }
    }
}
