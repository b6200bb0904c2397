//! Marks on disk.

use std::collections::HashSet;

use elevo_core::TenantId;
use elevo_engine::{StoreError, StoreResult};
use elevo_objects::{Kind, ObjectKey};
use rocksdb::{WriteBatch, WriteOptions};

use super::{Active, Kept};
use crate::keys;
use crate::rocks;
use crate::store::{LocalStore, read_failed, write_failed};

/// Reason why an object is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Another call wrote it, or looked it up, while the collection was running.
    Kept,
    /// A root needs it, and the objects it refers to are marked as well.
    Walked,
}

/// State of a tenant's collections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// Number of the last full collection.
    pub(super) number: u32,
    /// Whether every object needed at the end of the last collection is marked.
    pub(super) whole: bool,
}

/// Returns the number and mark of a row.
pub(crate) fn decode(value: &[u8]) -> Option<(u32, Mark)> {
    let (number, mark) = value.split_first_chunk()?;
    let mark = match mark {
        [1] => Mark::Kept,
        [2] => Mark::Walked,
        _ => return None,
    };
    Some((u32::from_le_bytes(*number), mark))
}

pub(crate) fn encode(number: u32, mark: Mark) -> [u8; 5] {
    let mut value = [match mark {
        Mark::Kept => 1,
        Mark::Walked => 2,
    }; 5];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

impl LocalStore {
    pub(super) fn numbers(&self, tenant: TenantId) -> StoreResult<Numbers> {
        let what = "the state of collections";
        let row = keys::collections(tenant);
        let found = self.db.get_pinned_cf(self.family(rocks::METADATA), row);
        let Some(value) = found.map_err(|error| read_failed(what, error))? else {
            let (number, whole) = (0, false);
            return Ok(Numbers { number, whole });
        };
        let (number, mark) = decode(&value).ok_or_else(|| StoreError::Damaged(what.into()))?;
        let whole = mark == Mark::Walked;
        Ok(Numbers { number, whole })
    }

    pub(super) fn set_numbers(&self, tenant: TenantId, numbers: Numbers) -> StoreResult<()> {
        let mark = if numbers.whole {
            Mark::Walked
        } else {
            Mark::Kept
        };
        let mut options = WriteOptions::default();
        options.set_sync(true);
        let family = self.family(rocks::METADATA);
        let value = encode(numbers.number, mark);
        let written = self
            .db
            .put_cf_opt(family, keys::collections(tenant), value, &options);
        written.map_err(write_failed)
    }

    pub(super) fn mark_of(
        &self,
        tenant: TenantId,
        key: &ObjectKey,
        number: u32,
    ) -> StoreResult<Option<Mark>> {
        let row = keys::object(tenant, key);
        let found = self.db.get_pinned_cf(self.family(rocks::MARKS), row);
        let found = found.map_err(|error| read_failed("a mark", error))?;
        Ok(found.and_then(|value| current(&value, number)))
    }

    pub(super) fn marks_of(
        &self,
        tenant: TenantId,
        keys: &[ObjectKey],
        number: u32,
    ) -> StoreResult<Vec<Option<Mark>>> {
        let rows = keys.iter().map(|key| keys::object(tenant, key));
        let rows: Vec<_> = rows.collect();
        let family = self.family(rocks::MARKS);
        let found = self.db.batched_multi_get_cf(family, &rows, false);
        let mark = |found: Result<Option<rocksdb::DBPinnableSlice<'_>>, _>| {
            let found = found.map_err(|error| read_failed("a mark", error))?;
            Ok(found.and_then(|value| current(&value, number)))
        };
        found.into_iter().map(mark).collect()
    }

    /// Marks objects. Returns for each, except chunks, whether it had no mark
    /// before.
    pub(super) fn mark(
        &self,
        tenant: TenantId,
        keys: &[ObjectKey],
        number: u32,
    ) -> StoreResult<Vec<bool>> {
        let is_node = |key: &&ObjectKey| key.kind != Kind::Chunk;
        let nodes: Vec<_> = keys.iter().filter(is_node).copied().collect();
        let mut marks = self.marks_of(tenant, &nodes, number)?.into_iter();
        let mut seen = HashSet::new();
        let mut batch = WriteBatch::default();
        let mut answers = Vec::with_capacity(keys.len());
        for key in keys {
            let is_first = key.kind == Kind::Chunk
                || (marks.next().flatten() != Some(Mark::Walked) && seen.insert(*key));
            if is_first {
                let row = keys::object(tenant, key);
                let value = encode(number, Mark::Walked);
                batch.put_cf(self.family(rocks::MARKS), row, value);
            }
            answers.push(is_first);
        }
        self.db.write_without_wal(batch).map_err(write_failed)?;
        Ok(answers)
    }

    /// Moves the kept keys to the marks.
    pub(super) fn spill(
        &self,
        tenant: TenantId,
        active: &Active,
        kept: &mut Kept,
    ) -> StoreResult<()> {
        let keys: Vec<_> = kept.keys.drain().collect();
        kept.spilled += 1;
        for some in keys.chunks(1000) {
            let marks = self.marks_of(tenant, some, active.number)?;
            let mut batch = WriteBatch::default();
            for (key, mark) in some.iter().zip(marks) {
                if mark.is_none() {
                    let value = encode(active.number, Mark::Kept);
                    let row = keys::object(tenant, key);
                    batch.put_cf(self.family(rocks::MARKS), row, value);
                }
            }
            self.db.write_without_wal(batch).map_err(write_failed)?;
        }
        Ok(())
    }
}

/// Returns the mark in a row, if this collection made it.
fn current(value: &[u8], wanted: u32) -> Option<Mark> {
    let (number, mark) = decode(value)?;
    (number == wanted).then_some(mark)
}
