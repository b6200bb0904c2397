//! Names of tags.

use crate::errors::TagProblem;
use crate::local::revision::{self, HEAD, TAGS};
use crate::output::format;

/// Rejects names that could not be used, or would hide another revision.
pub(crate) fn check_tag_name(name: &str) -> Result<(), TagProblem> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > 200 {
        "it is longer than 200 bytes"
    } else if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        "it contains spaces or control characters"
    } else if name.contains('~') {
        "`~` stands for steps back in the history"
    } else if name.contains(':') {
        "`:` separates a snapshot from a path"
    } else if name.contains("..") {
        "`..` separates two snapshots"
    } else if name.starts_with('-') {
        "it looks like an option"
    } else if matches!(name, HEAD | "HEAD" | "@") {
        "the name is reserved"
    } else if name.starts_with(TAGS) {
        "tags are named without `tag/`"
    } else if revision::is_digits(name) {
        "it looks like the id of a snapshot"
    } else {
        return Ok(());
    };
    let name = format::harmless(name).into_owned();
    Err(TagProblem::InvalidTag { name, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hide_something_cannot_be_tags() {
        for good in ["v1", "release/2.0", "größe", "abc", "feedfacecafeX"] {
            assert!(check_tag_name(good).is_ok(), "{good}");
        }
        for bad in [
            "", "a b", "a~1", "-x", "head", "HEAD", "@", "abcdef", "tag/v1", "a\n", "a:b", "a..b",
        ] {
            assert!(check_tag_name(bad).is_err(), "{bad}");
        }
    }
}
