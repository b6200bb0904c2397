//! Walks all objects together with their marks.

use elevo_engine::{StoreError, StoreResult, Swept};
use elevo_objects::{Kind, ObjectKey};
use rocksdb::{DBRawIterator, ReadOptions, WriteBatch};

use super::{LocalCollection, marks};
use crate::keys::{self, ObjectRow};
use crate::presence::Rows;
use crate::rocks;
use crate::store::{read_failed, write_failed};
use crate::usage::Counts;

/// Number of objects examined in a call.
const SEEN: u64 = 8192;

impl LocalCollection<'_> {
    pub(super) fn sweep_on(&mut self, only_count: bool) -> StoreResult<Option<Swept>> {
        let Some(start) = self.swept.take() else {
            return Ok(None);
        };
        // Read this before the marks: if keys are spilled after this,
        // `remove_unkept` looks up the marks again.
        let spilled = self.active.kept.lock().spilled;
        if self.before.is_none() {
            self.before = Some(self.store.counts(self.tenant)?);
        }
        let mut found = Found::default();
        self.swept = self.compare(&start, &mut found)?;
        let mut removed = found.unmarked.len() as u64;
        if !only_count {
            let gone = self.remove_unkept(&found.unmarked, spilled)?;
            removed = gone.into_iter().filter(|gone| *gone).count() as u64;
            self.forget(&found.stale)?;
            self.removed += removed;
        }
        self.seen.add_all(found.seen);
        let seen = found.seen.all();
        Ok(Some(Swept { seen, removed }))
    }

    /// Examines objects from `start` on; returns the row to continue at.
    fn compare(&self, start: &[u8], found: &mut Found) -> StoreResult<Option<Vec<u8>>> {
        let store = self.store;
        let tenant = self.tenant.as_bytes().as_slice();
        let open = |family| {
            let mut rows = Rows::of(&store.db, store.family(family));
            rows.seek(start);
            rows
        };
        let (mut nodes, mut chunks) = (open(rocks::NODES), open(rocks::CHUNKS));
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        let marks = store.family(rocks::MARKS);
        let mut marks = store.db.raw_iterator_cf_opt(marks, options);
        marks.seek(start);
        while found.seen.all() < SEEN {
            let node = row(&nodes)?.filter(|row| row.starts_with(tenant));
            let chunk = row(&chunks)?.filter(|row| row.starts_with(tenant));
            let (next, is_node) = match (node, chunk) {
                (None, None) => return Ok(None),
                (Some(node), Some(chunk)) if node > chunk => (chunk, false),
                (None, Some(chunk)) => (chunk, false),
                (Some(node), _) => (node, true),
            };
            found.seen.add(if is_node {
                Kind::Directory
            } else {
                Kind::Chunk
            });
            if !self.is_marked(&mut marks, next, found)? {
                let damaged = || StoreError::Damaged("a row of objects".into());
                let key = keys::object_key(next).ok_or_else(damaged)?;
                let row = ObjectRow::try_from(next).map_err(|_| damaged())?;
                found.unmarked.push((key, row));
            }
            if is_node { nodes.next() } else { chunks.next() }
        }
        // Continue at the first unseen row of either family, so that no object
        // is seen twice.
        let next = [row(&nodes)?, row(&chunks)?].into_iter().flatten().min();
        Ok(next.map(<[u8]>::to_vec))
    }

    /// Whether this collection has marked `row`. Advances `marks` up to the
    /// row, and adds marks of earlier collections on the way to `found`.
    fn is_marked(
        &self,
        marks: &mut DBRawIterator<'_>,
        row: &[u8],
        found: &mut Found,
    ) -> StoreResult<bool> {
        while let Some((marked, value)) = marks.item() {
            let number = marks::decode(value).map(|(number, _)| number);
            let is_current = number == Some(self.active.number);
            match marked.cmp(row) {
                std::cmp::Ordering::Less => {
                    if !is_current {
                        found.stale.push(marked.to_vec());
                    }
                    marks.next();
                }
                std::cmp::Ordering::Equal => return Ok(is_current),
                std::cmp::Ordering::Greater => return Ok(false),
            }
        }
        let read = marks.status();
        read.map_err(|error| read_failed("the marks", error))?;
        Ok(false)
    }

    /// Deletes marks of earlier collections.
    fn forget(&self, rows: &[Vec<u8>]) -> StoreResult<()> {
        let mut batch = WriteBatch::default();
        for row in rows {
            batch.delete_cf(self.store.family(rocks::MARKS), row);
        }
        let written = self.store.db.write_without_wal(batch);
        written.map_err(write_failed)
    }
}

/// Result of examining some objects.
#[derive(Default)]
struct Found {
    seen: Counts,
    unmarked: Vec<(ObjectKey, ObjectRow)>,
    /// Rows of marks of earlier collections.
    stale: Vec<Vec<u8>>,
}

fn row<'a>(rows: &'a Rows<'_>) -> StoreResult<Option<&'a [u8]>> {
    rows.row()
        .map_err(|words| StoreError::Storage(words.into()))
}
