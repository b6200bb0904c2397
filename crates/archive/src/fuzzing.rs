//! Checks of the archive reader on arbitrary bytes. Only tests and fuzzers
//! compile them.

use std::io::{self, Read};

use crate::{EntryKind, Limits, Reader};

/// Small, so that a fuzzer reaches them.
const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    entries: 100,
    depth: 20,
    name_bytes: 100,
};

/// Reads any bytes as an archive.
///
/// # Panics
///
/// If the result exceeds the limits.
pub fn read_any_archive(archive: &[u8]) {
    let Ok(mut reader) = Reader::new(archive, LIMITS) else {
        return;
    };
    let (mut entries, mut bytes) = (0, 0);
    // Skips some contents, and reads some in part.
    while let Ok(Some(entry)) = reader.next_entry() {
        entries += 1;
        let wanted = match entries % 3 {
            0 => 0,
            1 => u64::MAX,
            _ => entry.size / 2,
        };
        let read = io::copy(&mut reader.by_ref().take(wanted), &mut io::sink());
        if let Ok(read) = read {
            assert_eq!(
                read,
                entry.size.min(wanted),
                "the content has the declared size"
            );
        }
        bytes += entry.size;
        assert!(entry.kind == EntryKind::File || entry.size == 0);
        let names: Vec<_> = entry.path.names().collect();
        assert!(names.len() <= LIMITS.depth);
        let fits = |name: &elevo_core::Name| name.len() <= LIMITS.name_bytes;
        assert!(names.iter().all(fits));
    }
    assert!(entries <= LIMITS.entries && bytes <= LIMITS.bytes);
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::{corpus, read_any_archive};

    #[test]
    fn every_archive_of_the_corpus_is_read_to_an_end() {
        corpus::replay("tar_reader", read_any_archive);
    }
}
