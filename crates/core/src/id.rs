//! The ids of records.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The letters and digits of new ids: `l`, `o`, `0` and `1` are left out, because
/// readers confuse them.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Number of random bytes, and of letters, in a new id.
pub const ID_BYTES: usize = 16;

/// Maximum length of an id, with its prefix.
const LONGEST: usize = 64;

/// The id of a record: a prefix that shows the kind of the record, and 1 or
/// more of `a`–`z`, `0`–`9` and `-`, not starting with `-`. At most 64 bytes.
/// Safe as a file name and in a shell, and cheap to clone.
pub trait Id: Clone + fmt::Display + FromStr<Err = InvalidId> + Deref<Target = str> + Ord {
    /// The kind of the record, for messages.
    const KIND: &'static str;
    /// The first characters of every new id.
    const PREFIX: &'static str;

    /// Creates the id that encodes these bytes: 5 bits of each.
    fn from_bytes(bytes: &[u8; ID_BYTES]) -> Self;
}

/// A text that is not a valid id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {kind} id; use {form}")]
pub struct InvalidId {
    kind: &'static str,
    text: String,
    form: String,
}

/// Returns a prefix and the letters that encode these bytes: 5 bits of each.
pub fn id_text(prefix: &str, bytes: &[u8; ID_BYTES]) -> String {
    let letters = bytes.map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
    prefix.chars().chain(letters).collect()
}

/// Returns whether [`id_text`] could have returned this text.
pub fn is_id_text(prefix: &str, text: &str) -> bool {
    let letters = text.strip_prefix(prefix).unwrap_or_default();
    letters.len() == ID_BYTES && letters.bytes().all(|letter| ALPHABET.contains(&letter))
}

fn check(kind: &'static str, prefix: &str, text: &str) -> Result<(), InvalidId> {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let is_valid = text.len() <= LONGEST
        && text.strip_prefix(prefix).is_some_and(|rest| {
            !rest.is_empty() && !rest.starts_with('-') && rest.bytes().all(allowed)
        });
    if is_valid {
        return Ok(());
    }
    let most = LONGEST - prefix.len();
    let form = format!("1 to {most} characters of a-z, 0-9 and -, the first not -");
    Err(InvalidId {
        kind,
        text: text.chars().take(LONGEST).collect(),
        form: match prefix {
            "" => form,
            _ => format!("`{prefix}` and then {form}"),
        },
    })
}

/// Declares the id of a kind of record.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        id!($(#[$doc])* $name, $kind, $prefix, $prefix);
    };
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal, $required:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Id for $name {
            const KIND: &'static str = $kind;
            const PREFIX: &'static str = $prefix;

            fn from_bytes(bytes: &[u8; ID_BYTES]) -> Self {
                Self(id_text($prefix, bytes).into())
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                check($kind, $required, text)?;
                Ok(Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self)
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                **self == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                **self == **other
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// The id of a workspace. Needs no prefix, because a user of the command line
    /// can choose it, and because a workspace that is created for a sandbox has the
    /// id of the sandbox.
    WorkspaceId, "workspace", "ws-", ""
}

impl From<&SandboxId> for WorkspaceId {
    fn from(sandbox: &SandboxId) -> Self {
        Self(sandbox.0.clone())
    }
}

id! {
    /// The id of a sandbox.
    SandboxId, "sandbox", "sbx-"
}

id! {
    /// The id of a project.
    ProjectId, "project", "prj-"
}

id! {
    /// The id of an agent.
    AgentId, "agent", "agt-"
}

id! {
    /// The id of an API key.
    KeyId, "key", "key-"
}

id! {
    /// The id of a review.
    ReviewId, "review", "rev-"
}

id! {
    /// The id of a webhook.
    WebhookId, "webhook", "wh-"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_ids_that_are_safe_file_names() {
        for good in ["a", "fix-bug-7", "0", &"x".repeat(64)] {
            assert_eq!(good.parse::<WorkspaceId>().unwrap(), good);
        }
        for bad in [
            "",
            "-a",
            "A",
            "a/b",
            "..",
            "a.b",
            "a b",
            "a\0",
            "ä",
            &"x".repeat(65),
        ] {
            assert!(bad.parse::<WorkspaceId>().is_err(), "{bad}");
            let prefixed = format!("sbx-{bad}");
            assert!(prefixed.parse::<SandboxId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_has_the_prefix_of_its_kind() {
        assert!("sbx-2".parse::<SandboxId>().is_ok());
        for bad in ["2", "sbx", "sbx-", "prj-2", "xsbx-2", "SBX-2"] {
            assert!(bad.parse::<SandboxId>().is_err(), "{bad}");
        }
        let error = "2".parse::<SandboxId>().unwrap_err().to_string();
        let form = "`sbx-` and then 1 to 60 characters of a-z, 0-9 and -, the first not -";
        assert_eq!(error, format!("`2` is not a valid sandbox id; use {form}"));
    }

    #[test]
    fn encodes_five_bits_of_each_byte() {
        let bytes = std::array::from_fn(|n| (n as u8).wrapping_mul(32) + 31 - n as u8);
        let id = ReviewId::from_bytes(&bytes);
        assert_eq!(id, "rev-98765432zyxwvuts");
        assert!(is_id_text("rev-", &id));
        assert_eq!(id.parse(), Ok(id.clone()));
        for other in [
            "rev-98765432zyxwvut",
            "rev-98765432zyxwvutl",
            "98765432zyxwvuts",
        ] {
            assert!(!is_id_text("rev-", other), "{other}");
        }
    }
}
