//! A check of the stored forms on arbitrary bytes. Only tests and fuzzers compile
//! it.

use crate::stored;

/// Reads arbitrary bytes as a stored path and as a stored entry.
///
/// # Panics
///
/// If a value that was read has another stored form.
pub fn read_any_row(bytes: &[u8]) {
    if let Some(path) = stored::read_path(bytes) {
        assert_eq!(stored::path(&path), bytes);
        assert!(stored::path_after(Some(&path)).as_slice() > bytes);
        let above = stored::path_and_above(&path);
        assert_eq!(above.len(), path.names().count() + 1);
        assert!(
            above.iter().rev().is_sorted(),
            "the directories above come before the path"
        );
    }
    if let Some(entry) = stored::read_entry(bytes) {
        assert_eq!(stored::entry(&entry), bytes);
    }
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::{corpus, read_any_row};

    #[test]
    fn every_row_of_the_corpus_has_one_stored_form_or_is_rejected() {
        corpus::replay("catalog_row", read_any_row);
    }
}
