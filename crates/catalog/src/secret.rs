//! Secrets that authenticate: API keys, and the tokens of the workspace agents in
//! sandboxes.
//!
//! ```text
//! API key          elv_  and 43 characters of base64url: 32 random bytes
//! sandbox token    elvs_ and 43 characters of base64url: 32 random bytes
//! ```
//!
//! A catalog stores only a hash: BLAKE3 of the bytes, in a mode derived from the
//! kind of the secret, so that one kind never passes as the other. The bytes are
//! random, so a slow hash would add nothing.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

/// Length of the text after the prefix.
const ENCODED: usize = 43;

/// A text that is not a secret of the expected kind. The error does not quote the
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a {0}")]
pub struct InvalidSecret(&'static str);

/// Compares two hashes in a time that does not depend on where they differ.
pub fn is_same_hash(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.ct_eq(other).into()
}

/// The secret of an API key.
#[derive(Clone)]
pub struct ApiKeySecret([u8; 32]);

/// The token of a sandbox's workspace agent.
#[derive(Clone)]
pub struct SandboxToken([u8; 32]);

/// The methods that both kinds have.
macro_rules! secret {
    ($name:ident, $what:literal, $prefix:literal, $context:literal) => {
        impl $name {
            /// Prefix of the text form.
            pub const PREFIX: &'static str = $prefix;

            /// Creates a secret from bytes, which must be random.
            pub const fn from_random(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// Returns the text form, which the owner sees only once.
            pub fn reveal(&self) -> String {
                format!("{}{}", Self::PREFIX, URL_SAFE_NO_PAD.encode(self.0))
            }

            /// Returns the hash to store.
            pub fn hash(&self) -> [u8; 32] {
                blake3::derive_key($context, &self.0)
            }

            /// Compares `hash` with the hash of this secret, in constant time.
            pub fn matches(&self, hash: &[u8; 32]) -> bool {
                is_same_hash(&self.hash(), hash)
            }
        }

        impl FromStr for $name {
            type Err = InvalidSecret;

            /// Accepts exactly the text that [`Self::reveal`] returns: a secret
            /// has one text form.
            fn from_str(text: &str) -> Result<Self, InvalidSecret> {
                decode(text, Self::PREFIX)
                    .map(Self)
                    .ok_or(InvalidSecret($what))
            }
        }

        impl fmt::Debug for $name {
            /// Never shows the secret.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    };
}

secret!(
    ApiKeySecret,
    "key",
    "elv_",
    "elevo catalog 2025-11-15 API key"
);
secret!(
    SandboxToken,
    "sandbox token",
    "elvs_",
    "elevo catalog 2025-11-15 sandbox token"
);

fn decode(text: &str, prefix: &str) -> Option<[u8; 32]> {
    let encoded = text.strip_prefix(prefix)?;
    if encoded.len() != ENCODED {
        return None;
    }
    URL_SAFE_NO_PAD.decode(encoded).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 32] = [0xfb; 32];

    #[test]
    fn the_text_of_a_secret_is_read_back() {
        let key = ApiKeySecret::from_random(BYTES);
        let text = key.reveal();
        assert_eq!(text, "elv_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        assert_eq!(text.len(), ApiKeySecret::PREFIX.len() + ENCODED);
        let again: ApiKeySecret = text.parse().unwrap();
        assert!(again.matches(&key.hash()));
        let token = SandboxToken::from_random(BYTES);
        assert!(
            token
                .reveal()
                .parse::<SandboxToken>()
                .unwrap()
                .matches(&token.hash())
        );
    }

    /// The hashes are stored in databases and must never change.
    #[test]
    fn hashes_do_not_change() {
        let hex = |hash: [u8; 32]| blake3::Hash::from_bytes(hash).to_hex().to_string();
        insta::assert_snapshot!(hex(ApiKeySecret::from_random(BYTES).hash()), @"d7c62fdbc965c7d963a2051219d9a819446dc9b7aa97e74ab8354adeab8103d0");
        insta::assert_snapshot!(hex(SandboxToken::from_random(BYTES).hash()), @"10d39a9efc095e3ba0c6d20f378a34b768120d94575b21a2324396484e28bd96");
    }

    #[test]
    fn a_secret_of_one_kind_is_not_valid_as_the_other() {
        let key = ApiKeySecret::from_random(BYTES);
        let token = SandboxToken::from_random(BYTES);
        assert!(!token.matches(&key.hash()));
        assert!(key.reveal().parse::<SandboxToken>().is_err());
        assert!(token.reveal().parse::<ApiKeySecret>().is_err());
    }

    #[test]
    fn only_the_exact_text_is_a_secret() {
        let text = ApiKeySecret::from_random(BYTES).reveal();
        let body = &text[4..];
        let others = [
            String::new(),
            "elv_".into(),
            body.into(),
            format!(" {text}"),
            format!("{text} "),
            format!("{text}="),
            format!("{text}A"),
            format!("ELV_{body}"),
            // The same bytes, with other unused bits in the last character.
            format!("{}t", &text[..text.len() - 1]),
            // The other base64 alphabet.
            text.replace('-', "+").replacen("elv+", "elv_", 1),
            format!("elv_{}", "ä".repeat(22)),
        ];
        for other in others {
            assert!(other.parse::<ApiKeySecret>().is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let key = ApiKeySecret::from_random(BYTES);
        assert_eq!(format!("{key:?}"), "ApiKeySecret(…)");
        assert_eq!(InvalidSecret("key").to_string(), "not a key");
    }
}
