//! Properties that must hold for arbitrary bytes, for fuzzers and tests.

use crate::stored;

/// Reads arbitrary bytes as a stored path and as a stored entry.
///
/// # Panics
///
/// If a value that was read has another stored form.
#[doc(hidden)]
pub fn read_any_row(kept: &[u8]) {
    if let Some(path) = stored::read_path(kept) {
        assert_eq!(stored::path(&path), kept);
        assert!(stored::path_after(Some(&path)).as_slice() > kept);
        let above = stored::path_and_above(&path);
        assert_eq!(above.len(), path.names().count() + 1);
        assert!(
            above.iter().rev().is_sorted(),
            "the directories above come before the path"
        );
    }
    if let Some(entry) = stored::read_entry(kept) {
        assert_eq!(stored::entry(&entry), kept);
    }
}
