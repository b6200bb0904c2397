//! Checks of the store's decoders on arbitrary bytes. Only tests and fuzzers
//! compile them.

use elevo_core::TenantId;
use elevo_objects::{StoredEncoder, decode_stored};

use crate::backup::list::FileList;
use crate::collect::marks;
use crate::keys;

/// Reads arbitrary bytes as a chunk on disk.
///
/// # Panics
///
/// If the chunk does not read back, or is larger than LZ4 can make it.
pub fn read_any_chunk(value: &[u8]) {
    let Some(chunk) = decode_stored(value) else {
        return;
    };
    assert!(chunk.len() <= value.len() * 255);
    let mut encoder = StoredEncoder::default();
    let plain = encoder.plain(&chunk);
    assert_eq!(decode_stored(plain).as_ref(), Some(&chunk));
    assert!(value[0] != plain[0] || value == plain, "one plain form");
    let compressed = encoder.compressed(&chunk);
    assert!(compressed.len() <= chunk.len() + 1);
    assert_eq!(decode_stored(compressed), Some(chunk));
}

/// Reads arbitrary bytes as a key or a small value of the database.
///
/// # Panics
///
/// If a decoded value does not encode back to the same bytes, or the bound of a
/// prefix is wrong.
pub fn read_any_row(row: &[u8]) {
    if let Some((tenant, rest)) = row.split_first_chunk() {
        let tenant = TenantId::new(*tenant);
        if let Some(key) = keys::object_key(row) {
            assert_eq!(keys::object(tenant, &key)[..], *row);
        }
        if let Some(id) = keys::snapshot_id(row) {
            assert_eq!(keys::snapshot(tenant, id)[..], *row);
        }
        // Only rows with an `r` after the tenant are listed as refs.
        if let (Some(name), Some(b'r')) = (keys::reference_name(row), rest.first()) {
            assert_eq!(keys::reference(tenant, name), row);
        }
    }
    if let Some((number, mark)) = marks::decode(row) {
        assert_eq!(marks::encode(number, mark)[..], *row);
    }
    if let Some(id) = keys::id(row) {
        assert_eq!(id.0.as_bytes()[..], *row);
    }
    if let Some(after) = keys::after_prefix(row) {
        assert!(*after > *row && !after.starts_with(row) && after.len() <= row.len());
    }
}

/// Reads arbitrary lines as the list of a backup, with a correct hash appended.
///
/// # Panics
///
/// If the result is not a list of files in one directory, or has another
/// encoding.
pub fn read_any_backup(lines: &[u8]) {
    let Ok(lines) = str::from_utf8(lines) else {
        return;
    };
    let text = format!("{lines}{}\n", blake3::hash(lines.as_bytes()));
    let Some(list) = FileList::parse(&text) else {
        return;
    };
    assert_eq!(list.text(), text);
    let largest = list.iter().map(|(_, file)| file.size).max();
    assert!(list.bytes() >= largest.unwrap_or(0));
    for (name, _) in list.iter() {
        assert!(!name.contains(['/', '\0']) && !matches!(name, "" | "." | ".."));
    }
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::{corpus, read_any_backup, read_any_chunk, read_any_row};

    #[test]
    fn every_chunk_of_the_corpus_is_read_back_or_rejected() {
        corpus::replay("store_chunk", read_any_chunk);
    }

    #[test]
    fn every_row_of_the_corpus_has_one_encoding_or_is_rejected() {
        corpus::replay("store_row", read_any_row);
    }

    #[test]
    fn every_list_of_the_corpus_has_only_plain_names_or_is_rejected() {
        corpus::replay("store_backup", read_any_backup);
    }
}
