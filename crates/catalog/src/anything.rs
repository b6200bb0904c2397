//! What must hold for any bytes at all, for fuzzers and for tests.

use crate::stored;

/// Reads whatever this is as a path and as an entry that a database kept.
///
/// # Panics
///
/// If what comes out is kept in another way.
#[doc(hidden)]
pub fn read_any_row(kept: &[u8]) {
    if let Some(path) = stored::read_path(kept) {
        assert_eq!(stored::path(&path), kept);
        assert!(stored::path_after(Some(&path)).as_slice() > kept);
        let above = stored::path_and_above(&path);
        assert_eq!(above.len(), path.names().count() + 1);
        assert!(
            above.iter().rev().is_sorted(),
            "what it is in comes before it"
        );
    }
    if let Some(entry) = stored::read_entry(kept) {
        assert_eq!(stored::entry(&entry), kept);
    }
}
