//! The approximate number of bytes that each tenant has stored.
//!
//! Objects are counted with the bytes of their values when they are written.
//! RocksDB cannot return the size of a row's value without reading it, so a
//! deleted object is subtracted with the average size of its kind. A sweep sees
//! all objects, and subtracts those that were counted but are not stored.
//!
//! The counts are in memory; each commit also writes those of its tenant. A
//! crash loses the counts of objects that were put and not committed, which are
//! garbage.

use std::collections::HashMap;

use elevo_core::TenantId;
use elevo_engine::{StoreError, StoreResult};
use elevo_objects::Kind;
use parking_lot::Mutex;
use rocksdb::WriteBatch;

use crate::keys;
use crate::rocks;
use crate::store::{LocalStore, read_failed, write_failed};

const VALUE: usize = 32;

/// Number and bytes of objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Subtracts this many objects of average size.
    fn take(&mut self, objects: u64) {
        let left = self.objects.saturating_sub(objects);
        let bytes = u128::from(self.bytes) * u128::from(left);
        let bytes = bytes / u128::from(self.objects.max(1));
        self.bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.objects = left;
    }
}

/// Numbers of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    chunks: u64,
    nodes: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Chunk => self.chunks += 1,
            _ => self.nodes += 1,
        }
    }

    pub(crate) fn add_all(&mut self, other: Self) {
        self.chunks += other.chunks;
        self.nodes += other.nodes;
    }

    pub(crate) fn all(self) -> u64 {
        self.chunks + self.nodes
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            chunks: self.chunks.saturating_sub(other.chunks),
            nodes: self.nodes.saturating_sub(other.nodes),
        }
    }
}

/// Amounts of chunks and nodes of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) chunks: Amount,
    pub(crate) nodes: Amount,
}

impl Amounts {
    /// Adds one object.
    pub(crate) fn count(&mut self, kind: Kind, bytes: usize) {
        let amount = Amount {
            objects: 1,
            bytes: bytes as u64,
        };
        match kind {
            Kind::Chunk => self.chunks.add(amount),
            _ => self.nodes.add(amount),
        }
    }

    fn add(&mut self, other: Self) {
        self.chunks.add(other.chunks);
        self.nodes.add(other.nodes);
    }

    fn bytes(self) -> u64 {
        self.chunks.bytes.saturating_add(self.nodes.bytes)
    }

    fn encode(self) -> [u8; VALUE] {
        let Self { chunks, nodes } = self;
        let numbers = [chunks.objects, chunks.bytes, nodes.objects, nodes.bytes];
        let mut value = [0; VALUE];
        for (place, number) in value.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        value
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (numbers, []) = value.as_chunks::<8>() else {
            return None;
        };
        let &[chunks, chunk_bytes, nodes, node_bytes] = numbers else {
            return None;
        };
        let amount = |objects, bytes| Amount {
            objects: u64::from_le_bytes(objects),
            bytes: u64::from_le_bytes(bytes),
        };
        Some(Self {
            chunks: amount(chunks, chunk_bytes),
            nodes: amount(nodes, node_bytes),
        })
    }
}

/// The stored amounts of each tenant that was used since the store was opened.
/// The first use of a tenant reads its amounts from the database.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<HashMap<TenantId, Amounts>>);

impl Usage {
    pub(crate) fn forget(&self, tenant: TenantId) {
        self.0.lock().remove(&tenant);
    }
}

impl LocalStore {
    pub(crate) fn stored_bytes_now(&self, tenant: TenantId) -> StoreResult<u64> {
        self.change_usage(tenant, |_| ()).map(Amounts::bytes)
    }

    /// Adds written objects.
    pub(crate) fn count_written(&self, tenant: TenantId, written: Amounts) -> StoreResult<()> {
        self.change_usage(tenant, |usage| usage.add(written))
            .map(drop)
    }

    /// Adds `written` to the amounts of a tenant, and writes them with a batch.
    pub(crate) fn add_usage(
        &self,
        batch: &mut WriteBatch,
        tenant: TenantId,
        written: Amounts,
    ) -> StoreResult<()> {
        if written == Amounts::default() {
            return Ok(());
        }
        let usage = self.change_usage(tenant, |usage| usage.add(written))?;
        let family = self.family(rocks::METADATA);
        batch.put_cf(family, keys::usage(tenant), usage.encode());
        Ok(())
    }

    /// Returns the numbers of objects counted for a tenant.
    pub(crate) fn counts(&self, tenant: TenantId) -> StoreResult<Counts> {
        let usage = self.change_usage(tenant, |_| ())?;
        Ok(Counts {
            chunks: usage.chunks.objects,
            nodes: usage.nodes.objects,
        })
    }

    /// Subtracts deleted objects.
    pub(crate) fn count_removed(&self, tenant: TenantId, removed: Counts) -> StoreResult<()> {
        let changed = self.change_usage(tenant, |usage| {
            usage.chunks.take(removed.chunks);
            usage.nodes.take(removed.nodes);
        });
        changed.map(drop)
    }

    pub(crate) fn write_usage(&self, tenant: TenantId) -> StoreResult<()> {
        let usage = self.change_usage(tenant, |_| ())?;
        let family = self.family(rocks::METADATA);
        let written = self.db.put_cf(family, keys::usage(tenant), usage.encode());
        written.map_err(write_failed)
    }

    fn change_usage(
        &self,
        tenant: TenantId,
        change: impl FnOnce(&mut Amounts),
    ) -> StoreResult<Amounts> {
        let mut tenants = self.usage.0.lock();
        let amounts = match tenants.entry(tenant) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                unknown.insert(self.read_usage(tenant)?)
            }
        };
        change(amounts);
        Ok(*amounts)
    }

    fn read_usage(&self, tenant: TenantId) -> StoreResult<Amounts> {
        let what = "the amounts of a tenant";
        let family = self.family(rocks::METADATA);
        let found = self.db.get_pinned_cf(family, keys::usage(tenant));
        match found.map_err(|error| read_failed(what, error))? {
            None => Ok(Amounts::default()),
            Some(value) => Amounts::decode(&value).ok_or_else(|| StoreError::Damaged(what.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_back() {
        let mut amounts = Amounts::default();
        amounts.count(Kind::Chunk, 100);
        amounts.count(Kind::Directory, 7);
        amounts.count(Kind::ChunkList, 8);
        let read = Amounts::decode(&amounts.encode());
        assert_eq!(read, Some(amounts));
        assert_eq!(amounts.bytes(), 115);
        assert_eq!(amounts.nodes.objects, 2);
        assert_eq!(Amounts::decode(&[0; VALUE - 1]), None);
        assert_eq!(Amounts::decode(&[0; VALUE + 8]), None);
    }

    #[test]
    fn removed_objects_have_the_average_size() {
        let mut amount = Amount {
            objects: 10,
            bytes: 1000,
        };
        amount.take(3);
        assert_eq!((amount.objects, amount.bytes), (7, 700));
        amount.take(8);
        assert_eq!(amount, Amount::default());
        amount.take(1);
        assert_eq!(amount, Amount::default());
    }
}
