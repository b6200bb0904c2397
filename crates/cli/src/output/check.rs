//! Lines of `elevo doctor`.

use crate::output::{ADDED, Output, REMOVED};

/// Formats a line: the name of a check, its result and a text.
pub(crate) fn check_row(output: &Output, name: &str, works: bool, text: &str) -> Vec<u8> {
    let (style, word) = match works {
        true => (ADDED, "works"),
        false => (REMOVED, "no"),
    };
    let name = format!("  {name:<14}");
    let word = output.styled(style, format!("{word:<6}"));
    [name.as_bytes(), word.as_slice(), text.as_bytes()].concat()
}
