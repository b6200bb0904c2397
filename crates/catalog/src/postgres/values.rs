//! The stored forms of values that a statement binds.

/// Returns a text that a statement compares with texts that are not empty: an
/// empty one, which finds nothing, if it has a NUL, which the database rejects.
pub(super) fn searched(text: &str) -> &str {
    if text.contains('\0') { "" } else { text }
}
