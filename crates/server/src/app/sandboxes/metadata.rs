//! Metadata of sandboxes: pairs that clients label them with.

use std::collections::BTreeMap;

use elevo_catalog::{MAX_METADATA, MAX_METADATA_VALUE_BYTES};

use crate::failure::{Failure, Result, short};

/// Maximum bytes of a key.
const KEY_BYTES: usize = 64;

/// Rejects pairs that a sandbox cannot have.
pub(crate) fn check(pairs: &BTreeMap<String, String>) -> Result<()> {
    if pairs.len() > MAX_METADATA {
        let message = format!("`metadata` must have at most {MAX_METADATA} pairs");
        return Err(Failure::invalid(message));
    }
    for (key, value) in pairs {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-');
        if !(1..=KEY_BYTES).contains(&key.len()) || !key.bytes().all(is_plain) {
            return Err(Failure::invalid(format!(
                "`metadata`: `{}` is not a valid key; a key has 1 to {KEY_BYTES} of the \
                 characters A-Z a-z 0-9 . _ / -",
                short(key)
            )));
        }
        if value.len() > MAX_METADATA_VALUE_BYTES || value.contains('\0') {
            return Err(Failure::invalid(format!(
                "`metadata`: the value of `{key}` must have at most {MAX_METADATA_VALUE_BYTES} \
                 bytes and no NUL"
            )));
        }
    }
    Ok(())
}

/// Parses the filters of a list, each in the form `KEY:VALUE`.
pub(crate) fn filters(texts: &[String]) -> Result<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for text in texts {
        let pair = text.split_once(':').ok_or_else(|| {
            let message = format!("`metadata`: `{}` is not a pair KEY:VALUE", short(text));
            Failure::invalid(message)
        })?;
        if pairs.insert(pair.0.to_owned(), pair.1.to_owned()).is_some() {
            let message = format!("`metadata` has the key `{}` twice", short(pair.0));
            return Err(Failure::invalid(message));
        }
    }
    check(&pairs)?;
    Ok(pairs)
}

/// Returns the pairs of a sandbox after a change: a pair with the value `None`
/// is removed.
pub(crate) fn merged(
    mut pairs: BTreeMap<String, String>,
    changes: BTreeMap<String, Option<String>>,
) -> Result<BTreeMap<String, String>> {
    for (key, value) in changes {
        match value {
            Some(value) => pairs.insert(key, value),
            None => pairs.remove(&key),
        };
    }
    check(&pairs)?;
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(count: usize) -> BTreeMap<String, String> {
        (0..count).map(|n| (n.to_string(), "x".into())).collect()
    }

    #[test]
    fn rejects_pairs_out_of_bounds() {
        let one = |key: &str, value: &str| check(&[(key.into(), value.into())].into());
        check(&pairs(MAX_METADATA)).unwrap();
        one("Team/a_b-c.9", "ä").unwrap();
        one(&"k".repeat(64), &"v".repeat(512)).unwrap();
        assert!(check(&pairs(MAX_METADATA + 1)).is_err());
        for key in ["", "a b", "a:b", "ä", &"k".repeat(65)] {
            assert!(one(key, "").is_err(), "{key}");
        }
        for value in ["\0", &"v".repeat(513)] {
            assert!(one("k", value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_filter_is_split_at_its_first_colon() {
        let read = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            filters(&texts)
        };
        let found = read(&["url:http://x", "empty:"]).unwrap();
        assert_eq!(found["url"], "http://x");
        assert_eq!(found["empty"], "");
        for bad in [&["plain"][..], &[":value"], &["a:1", "a:2"]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_change_sets_and_removes_pairs() {
        let changes = [("0".into(), None), ("2".into(), Some("new".into()))];
        let changed = merged(pairs(2), changes.into()).unwrap();
        let expected = [("1".into(), "x".into()), ("2".into(), "new".into())];
        assert_eq!(changed, expected.into());
        let more = (0..64).map(|n| (format!("k{n}"), Some(String::new())));
        assert!(merged(pairs(2), more.collect()).is_err());
    }
}
