//! Checks of the store's decoders on arbitrary bytes. Only tests and fuzzers
//! compile them.

use crate::marks::Marks;
use crate::pack::{self, Entry};

/// Reads arbitrary bytes as a pack.
///
/// # Panics
///
/// If an object lies outside of the pack.
pub fn read_any_pack(bytes: &[u8]) {
    let Ok(entries) = pack::read_index(bytes) else {
        return;
    };
    for Entry { key, start, size } in entries {
        let stored = &bytes[start as usize..][..size as usize];
        let _ = pack::object(&key, stored);
    }
}

/// Reads arbitrary bytes as the marks of a collection.
///
/// # Panics
///
/// If decoded marks do not encode back to the same bytes.
pub fn read_any_marks(bytes: &[u8]) {
    if let Some(marks) = Marks::decode(bytes) {
        assert_eq!(marks.encode(), bytes);
    }
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::{corpus, read_any_marks, read_any_pack};

    #[test]
    fn every_input_of_the_corpus_is_read_or_rejected() {
        corpus::replay("store_pack", |data| {
            read_any_pack(data);
            read_any_marks(data);
        });
    }
}
