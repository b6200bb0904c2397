//! Keys as they are on disk. All begin with the tenant, so one tenant's data
//! is one range of every column family.
//!
//! ```text
//! chunks, nodes   tenant (16) · hash (32) · kind (1)   -> the object's bytes
//! snapshots       tenant (16) · id (32)                -> the snapshot's bytes
//! metadata        tenant (16) · 'r' · reference's name -> id (32)
//!                 tenant (16) · 'g'                    -> collections: number (4) · state (1)
//! marks           a row of chunks, nodes or snapshots  -> collection's number (4) · mark (1)
//! ```

use elevo_core::TenantId;
use elevo_objects::{Hash, Kind, ObjectKey, SnapshotId};

const TENANT: usize = 16;
const HASH: usize = 32;
const REFERENCE: u8 = b'r';
const COLLECTIONS: u8 = b'g';

pub(crate) type ObjectRow = [u8; TENANT + HASH + 1];
pub(crate) type SnapshotRow = [u8; TENANT + HASH];

/// Equal hashes of different kinds are different objects, so the kind is in
/// the key; it is last because the hash alone tells almost all keys apart.
pub(crate) fn object(tenant: TenantId, key: &ObjectKey) -> ObjectRow {
    let mut row = [0; TENANT + HASH + 1];
    row[..TENANT].copy_from_slice(tenant.as_bytes());
    row[TENANT..TENANT + HASH].copy_from_slice(key.hash.as_bytes());
    row[TENANT + HASH] = match key.kind {
        Kind::Chunk => b'c',
        Kind::Directory => b'd',
        Kind::Times => b't',
        Kind::ChunkList => b'f',
        Kind::Snapshot => b's',
    };
    row
}

/// The object in a row of chunks or nodes; `None` if it is not one.
pub(crate) fn object_key(row: &[u8]) -> Option<ObjectKey> {
    let hash = row.get(TENANT..TENANT + HASH)?.try_into().ok()?;
    let kind = match row.get(TENANT + HASH..)? {
        b"c" => Kind::Chunk,
        b"d" => Kind::Directory,
        b"t" => Kind::Times,
        b"f" => Kind::ChunkList,
        _ => return None,
    };
    Some(ObjectKey {
        kind,
        hash: Hash::from_bytes(hash),
    })
}

pub(crate) fn snapshot(tenant: TenantId, id: SnapshotId) -> SnapshotRow {
    let mut row = [0; TENANT + HASH];
    row[..TENANT].copy_from_slice(tenant.as_bytes());
    row[TENANT..].copy_from_slice(id.0.as_bytes());
    row
}

/// The id in a row of the snapshots; `None` if it is not one.
pub(crate) fn snapshot_id(row: &[u8]) -> Option<SnapshotId> {
    id(row.get(TENANT..)?)
}

pub(crate) fn reference(tenant: TenantId, name: &str) -> Vec<u8> {
    let mut row = Vec::with_capacity(TENANT + 1 + name.len());
    row.extend_from_slice(tenant.as_bytes());
    row.push(REFERENCE);
    row.extend_from_slice(name.as_bytes());
    row
}

/// What is known of a tenant's collections.
pub(crate) fn collections(tenant: TenantId) -> [u8; TENANT + 1] {
    let mut row = [COLLECTIONS; TENANT + 1];
    row[..TENANT].copy_from_slice(tenant.as_bytes());
    row
}

/// The name in a row of the references; `None` if it is not one.
pub(crate) fn reference_name(row: &[u8]) -> Option<&str> {
    str::from_utf8(row.get(TENANT + 1..)?).ok()
}

pub(crate) fn id(bytes: &[u8]) -> Option<SnapshotId> {
    Some(SnapshotId(Hash::from_bytes(bytes.try_into().ok()?)))
}

/// The first row after all that begin with `prefix`; `None` if that is the end.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_one_of_its_length() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }

    #[test]
    fn rows_read_back() {
        let tenant = TenantId::new([7; 16]);
        let id = SnapshotId(Hash::from_bytes([9; 32]));
        assert_eq!(snapshot_id(&snapshot(tenant, id)), Some(id));
        assert_eq!(snapshot_id(b"short"), None);
        assert_eq!(reference_name(&reference(tenant, "a/b")), Some("a/b"));
    }
}
