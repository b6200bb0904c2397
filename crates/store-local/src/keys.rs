//! Keys on disk. All begin with the tenant, so the data of one tenant is one
//! range of every column family.
//!
//! ```text
//! chunks, nodes   tenant (16) · hash (32) · kind (1)   -> the object's bytes
//! snapshots       tenant (16) · id (32)                -> the snapshot's bytes
//! metadata        tenant (16) · 'r' · reference's name -> id (32)
//!                 tenant (16) · 'g'                    -> collections: number (4) · state (1)
//!                 tenant (16) · 'u'                    -> chunks: count (8) · bytes (8) · nodes: the same
//! marks           a row of chunks, nodes or snapshots  -> collection's number (4) · mark (1)
//! ```

use elevo_core::TenantId;
use elevo_objects::{Hash, Kind, ObjectKey, SnapshotId};

const TENANT: usize = 16;
const HASH: usize = 32;
const REFERENCE: u8 = b'r';
const COLLECTIONS: u8 = b'g';
const USAGE: u8 = b'u';

pub(crate) type ObjectRow = [u8; TENANT + HASH + 1];
pub(crate) type SnapshotRow = [u8; TENANT + HASH];

/// Equal hashes of different kinds are different objects, so the kind is in the
/// key; it is last because the hash alone distinguishes almost all keys.
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

/// Returns the object of a row of chunks or nodes; `None` if the row is not
/// valid.
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

/// Returns the id of a row of snapshots; `None` if the row is not valid.
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

/// Row with the stored amounts of a tenant.
pub(crate) fn usage(tenant: TenantId) -> [u8; TENANT + 1] {
    let mut row = [USAGE; TENANT + 1];
    row[..TENANT].copy_from_slice(tenant.as_bytes());
    row
}

/// Row with the state of a tenant's collections.
pub(crate) fn collections(tenant: TenantId) -> [u8; TENANT + 1] {
    let mut row = [COLLECTIONS; TENANT + 1];
    row[..TENANT].copy_from_slice(tenant.as_bytes());
    row
}

/// Returns the first row of a tenant in any family, and a row after its last
/// one.
pub(crate) fn range(tenant: TenantId) -> (Vec<u8>, Vec<u8>) {
    let start = tenant.as_bytes().to_vec();
    // No row of the tenant is greater: names are text, and no kind of object is
    // 0xff.
    let end = [start.as_slice(), &[0xff; HASH + 1]].concat();
    (start, end)
}

/// Returns the name of a row of refs; `None` if the row is not valid.
pub(crate) fn reference_name(row: &[u8]) -> Option<&str> {
    str::from_utf8(row.get(TENANT + 1..)?).ok()
}

pub(crate) fn id(bytes: &[u8]) -> Option<SnapshotId> {
    Some(SnapshotId(Hash::from_bytes(bytes.try_into().ok()?)))
}

/// Returns the first row after all that begin with `prefix`; `None` at the end.
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
    fn the_end_of_a_prefix_is_the_next_prefix_of_its_length() {
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

    #[test]
    fn every_row_of_a_tenant_is_in_its_range() {
        let hash = Hash::from_bytes([0xff; 32]);
        let key = |kind| ObjectKey { kind, hash };
        for tenant in [[0; 16], [7; 16], [0xff; 16]].map(TenantId::new) {
            let (start, end) = range(tenant);
            let last = object(tenant, &key(Kind::Times));
            let name = "\u{10ffff}".repeat(60);
            for row in [
                object(tenant, &key(Kind::Chunk)).to_vec(),
                last.to_vec(),
                snapshot(tenant, SnapshotId(hash)).to_vec(),
                reference(tenant, &name),
                collections(tenant).to_vec(),
            ] {
                assert!(start <= row && row < end);
            }
        }
    }
}
