use std::fmt;
use std::str::FromStr;

/// The id of a workspace: 1 to 64 of `a`–`z`, `0`–`9` and `-`, not starting
/// with `-`. Safe as a file name and in a shell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceId(String);

/// A text that is not a valid workspace id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid workspace id; use 1 to 64 of a-z, 0-9 and -, not starting with -")]
pub struct InvalidId(String);

const LONGEST: usize = 64;

impl WorkspaceId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkspaceId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let good = !text.is_empty()
            && text.len() <= LONGEST
            && !text.starts_with('-')
            && text.bytes().all(allowed);
        if good {
            Ok(Self(text.into()))
        } else {
            Err(InvalidId(text.chars().take(LONGEST).collect()))
        }
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_ids_that_are_safe_file_names() {
        for good in ["a", "fix-bug-7", "0", &"x".repeat(64)] {
            assert!(good.parse::<WorkspaceId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "A",
            "a/b",
            "..",
            "a.b",
            "a b",
            "ä",
            &"x".repeat(65),
        ] {
            assert!(bad.parse::<WorkspaceId>().is_err(), "{bad}");
        }
    }
}
