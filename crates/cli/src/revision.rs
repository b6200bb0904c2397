//! Which snapshot a user means.
//!
//! ```text
//! REV  = NAME [~[N]]...
//! NAME = head | @ | id | first digits of an id | tag | reference
//! ```

use elevo_engine::Repository;
use elevo_objects::{Hash, Snapshot, SnapshotId};

use crate::errors::Problem;
use crate::session::wait;

/// The reference that `commit` moves.
pub(crate) const HEAD: &str = "head";
/// What the names of tags begin with, as references.
pub(crate) const TAGS: &str = "tag/";

/// Fewer digits than this are no id.
const MIN_DIGITS: usize = 6;
const ALL_DIGITS: usize = 64;
/// How many snapshots are named when the first digits fit several.
const CANDIDATES: usize = 3;

/// Finds the snapshot that `text` names. `here` is what the working directory
/// is known to hold.
pub(crate) fn resolve(
    repository: &Repository,
    here: Option<SnapshotId>,
    text: &str,
) -> anyhow::Result<(SnapshotId, Snapshot)> {
    let (name, steps) = split(text).ok_or_else(|| Problem::InvalidRevision(text.into()))?;
    let mut id = find(repository, here, name)?;
    let mut snapshot = wait(repository.snapshot(id))?;
    for gone in 0..steps {
        id = *snapshot.parents.first().ok_or(Problem::NoAncestor {
            text: text.into(),
            steps: gone,
        })?;
        snapshot = wait(repository.snapshot(id))?;
    }
    Ok((id, snapshot))
}

/// Takes `~N` off the end; `None` if a number or the name is missing.
fn split(text: &str) -> Option<(&str, u64)> {
    let mut parts = text.split('~');
    let name = parts.next().filter(|name| !name.is_empty())?;
    let mut steps: u64 = 0;
    for part in parts {
        let step = if part.is_empty() {
            1
        } else {
            part.parse().ok()?
        };
        steps = steps.checked_add(step)?;
    }
    Some((name, steps))
}

fn find(
    repository: &Repository,
    here: Option<SnapshotId>,
    name: &str,
) -> anyhow::Result<SnapshotId> {
    if name == "@" {
        return Ok(here.ok_or(Problem::NoCheckout)?);
    }
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    for reference in [name.to_owned(), format!("{TAGS}{name}")] {
        if elevo_engine::store::check_reference_name(&reference).is_ok()
            && let Some(id) = reference_at(repository, &reference)?
        {
            return Ok(id);
        }
    }
    match name {
        HEAD => Err(Problem::NothingCommitted.into()),
        name if is_digits(name) => by_digits(repository, name),
        name => Err(Problem::UnknownRevision(name.into()).into()),
    }
}

/// Where a reference points to.
pub(crate) fn reference_at(
    repository: &Repository,
    name: &str,
) -> anyhow::Result<Option<SnapshotId>> {
    let store = repository.store();
    Ok(wait(store.reference(repository.tenant(), name))?)
}

/// Whether a text could be the start of an id, or all of it.
pub(crate) fn is_digits(text: &str) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (MIN_DIGITS..=ALL_DIGITS).contains(&text.len()) && text.bytes().all(digit)
}

fn by_digits(repository: &Repository, digits: &str) -> anyhow::Result<SnapshotId> {
    let store = repository.store();
    let after = before_all(digits);
    let listed = store.list_snapshots(repository.tenant(), after, CANDIDATES);
    let listed = wait(listed)?;
    let mut fitting = listed
        .iter()
        .filter(|id| id.to_string().starts_with(digits));
    match (fitting.next(), fitting.next()) {
        (None, _) => Err(Problem::UnknownRevision(digits.into()).into()),
        (Some(id), None) => Ok(*id),
        _ => Err(Problem::AmbiguousRevision {
            text: digits.into(),
            candidates: listed
                .iter()
                .map(SnapshotId::to_string)
                .filter(|id| id.starts_with(digits))
                .collect(),
        }
        .into()),
    }
}

/// The last id before all those that begin with `digits`.
fn before_all(digits: &str) -> Option<SnapshotId> {
    let first: Hash = format!("{digits:0<ALL_DIGITS$}").parse().ok()?;
    let mut bytes = *first.as_bytes();
    for byte in bytes.iter_mut().rev() {
        let (less, borrow) = byte.overflowing_sub(1);
        *byte = less;
        if !borrow {
            return Some(SnapshotId(Hash::from_bytes(bytes)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_are_taken_off_the_end() {
        assert_eq!(split("head"), Some(("head", 0)));
        assert_eq!(split("head~"), Some(("head", 1)));
        assert_eq!(split("v1~~3"), Some(("v1", 4)));
        for bad in ["", "~1", "head~x", "head~-1"] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn digits_are_looked_for_from_the_id_before_them() {
        let before = |digits| before_all(digits).map(|id| id.to_string());
        assert_eq!(before("000000"), None);
        let expected = format!("abcde{}", "f".repeat(59));
        assert_eq!(before("abcdf0"), Some(expected.clone()));
        assert_eq!(before("abcdf00"), Some(expected));
    }

    #[test]
    fn six_lowercase_digits_or_more_may_be_an_id() {
        assert!(is_digits("0123ab") && is_digits(&"f".repeat(64)));
        assert!(!is_digits("0123a") && !is_digits("0123AB") && !is_digits("v1.0.0"));
        assert!(!is_digits(&"f".repeat(65)));
    }
}
