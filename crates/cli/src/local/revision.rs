//! Resolves the name of a snapshot that a user typed.
//!
//! ```text
//! REV   = NAME [~[N]]...
//! NAME  = head | HEAD | @ | id | first digits of an id | tag | reference
//! RANGE = [REV] .. [REV]       head by default
//! FILE  = REV : PATH
//! ```
//!
//! No tag contains `~`, `:` or `..`, so each form has one reading.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use elevo_engine::Repository;
use elevo_objects::{Hash, Snapshot, SnapshotId};

use crate::errors::SnapshotProblem;
use crate::local::wait::wait;

/// The reference that `commit` moves.
pub(crate) const HEAD: &str = "head";

/// Prefix of the references of tags.
pub(crate) const TAGS: &str = "tag/";

/// Minimum digits of an abbreviated id.
const MIN_DIGITS: usize = 6;

const ALL_DIGITS: usize = 64;

/// Maximum number of candidates listed for an ambiguous id.
const CANDIDATES: usize = 3;

/// Finds the snapshot that `text` names. `here` is the snapshot recorded for the
/// working directory.
pub(crate) fn resolve(
    repository: &Repository,
    here: Option<SnapshotId>,
    text: &str,
) -> anyhow::Result<(SnapshotId, Snapshot)> {
    let (name, steps) = split(text).ok_or_else(|| SnapshotProblem::InvalidRevision(text.into()))?;
    let mut id = find(repository, here, name)?;
    let mut snapshot = wait(repository.snapshot(id))?;
    for gone in 0..steps {
        id = *snapshot
            .parents
            .first()
            .ok_or(SnapshotProblem::NoAncestor {
                text: text.into(),
                steps: gone,
            })?;
        snapshot = wait(repository.snapshot(id))?;
    }
    Ok((id, snapshot))
}

/// Splits `REV:PATH`, or `REV` without a path. A path may contain `:`.
pub(crate) fn with_path(text: &OsStr) -> Result<(&str, Option<&OsStr>), SnapshotProblem> {
    let bytes = text.as_bytes();
    let (revision, path) = match bytes.iter().position(|byte| *byte == b':') {
        Some(end) => (&bytes[..end], Some(OsStr::from_bytes(&bytes[end + 1..]))),
        None => (bytes, None),
    };
    match std::str::from_utf8(revision) {
        Ok(revision) => Ok((revision, path)),
        Err(_) => {
            let text = String::from_utf8_lossy(revision).into_owned();
            Err(SnapshotProblem::InvalidRevision(text))
        }
    }
}

/// Splits `A..B`; a side that is left out is `head`. Returns `None` for a single
/// snapshot.
pub(crate) fn range(text: &str) -> Option<(&str, &str)> {
    let (from, to) = text.split_once("..")?;
    Some((or_head(from), or_head(to)))
}

fn or_head(side: &str) -> &str {
    match side {
        "" => HEAD,
        side => side,
    }
}

/// Splits `~N` off the end. Returns `None` if the name is empty or a number is
/// invalid.
fn split(text: &str) -> Option<(&str, u64)> {
    if text.contains("..") || text.contains(':') {
        return None;
    }
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
        return Ok(here.ok_or(SnapshotProblem::NoCheckout)?);
    }
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let name = match name {
        "HEAD" => HEAD,
        name => name,
    };
    for reference in [name.to_owned(), format!("{TAGS}{name}")] {
        if elevo_engine::store::check_reference_name(&reference).is_ok()
            && let Some(id) = reference_at(repository, &reference)?
        {
            return Ok(id);
        }
    }
    match name {
        HEAD => Err(SnapshotProblem::NothingCommitted.into()),
        name if is_digits(name) => by_digits(repository, name),
        name => Err(SnapshotProblem::UnknownRevision(name.into()).into()),
    }
}

/// The snapshot that a reference points to.
pub(crate) fn reference_at(
    repository: &Repository,
    name: &str,
) -> anyhow::Result<Option<SnapshotId>> {
    let store = repository.store();
    Ok(wait(store.reference(repository.tenant(), name))?)
}

/// Whether a text can be an id or the first digits of one.
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
        (None, _) => Err(SnapshotProblem::UnknownRevision(digits.into()).into()),
        (Some(id), None) => Ok(*id),
        _ => Err(SnapshotProblem::AmbiguousRevision {
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

/// The greatest id that is less than all ids that begin with `digits`.
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
    use std::collections::{BTreeMap, HashMap};
    use std::sync::Arc;

    use elevo_core::{TenantId, Timestamp};
    use elevo_engine::{Commit, MemoryStore};
    use elevo_objects::Tree;

    use super::*;

    /// Returns a repository with `count` snapshots, and their ids.
    fn with_snapshots(count: usize) -> (Repository, Vec<SnapshotId>) {
        let store = Arc::new(MemoryStore::new());
        let repository = Repository::new(store, TenantId::LOCAL, 1 << 20);
        let snapshot = |number: usize| Snapshot {
            tree: Tree::EMPTY,
            times: None,
            parents: Vec::new(),
            author: String::new(),
            message: number.to_string(),
            created: Timestamp::new(0, 0).unwrap(),
            labels: BTreeMap::new(),
        };
        let commit = Commit {
            snapshots: (0..count).map(snapshot).collect(),
            ..Commit::default()
        };
        let ids = wait(repository.store().commit(TenantId::LOCAL, commit))
            .unwrap()
            .ids;
        (repository, ids)
    }

    fn problem(repository: &Repository, text: &str) -> SnapshotProblem {
        let error = resolve(repository, None, text).unwrap_err();
        error.downcast().unwrap()
    }

    #[test]
    fn first_digits_find_a_snapshot_unless_they_are_ambiguous() {
        // Enough that some ids begin with the same six digits by chance.
        let (repository, ids) = with_snapshots(20_000);
        let mut by_digits = HashMap::<_, Vec<_>>::new();
        for id in ids {
            let digits = id.to_string()[..MIN_DIGITS].to_owned();
            by_digits.entry(digits).or_default().push(id);
        }
        let (several, one): (Vec<_>, Vec<_>) =
            by_digits.into_iter().partition(|(_, ids)| ids.len() > 1);
        assert!(!several.is_empty());
        for (digits, ids) in several {
            let found = problem(&repository, &digits);
            let SnapshotProblem::AmbiguousRevision { candidates, .. } = found else {
                panic!("{found}");
            };
            let mut expected: Vec<_> = ids.iter().map(SnapshotId::to_string).collect();
            expected.sort();
            assert_eq!(candidates, expected);
        }
        for (digits, ids) in one.iter().take(1000) {
            assert_eq!(resolve(&repository, None, digits).unwrap().0, ids[0]);
        }
        let nothing = problem(&repository, "0000000000");
        assert!(
            matches!(nothing, SnapshotProblem::UnknownRevision(_)),
            "{nothing}"
        );
    }

    #[test]
    fn steps_back_are_taken_off_the_end() {
        assert_eq!(split("head"), Some(("head", 0)));
        assert_eq!(split("head~"), Some(("head", 1)));
        assert_eq!(split("v1~~3"), Some(("v1", 4)));
        for bad in ["", "~1", "head~x", "head~-1", "a..b", "v1:src"] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_range_has_two_sides_and_head_where_one_is_left_out() {
        assert_eq!(range("v1..v2~1"), Some(("v1", "v2~1")));
        assert_eq!(range("v1.."), Some(("v1", HEAD)));
        assert_eq!(range("..v1"), Some((HEAD, "v1")));
        assert_eq!(range("v1.0"), None);
    }

    #[test]
    fn the_first_colon_separates_the_path() {
        let split = |text: &'static str| with_path(text.as_ref()).unwrap();
        assert_eq!(split("v1"), ("v1", None));
        assert_eq!(split("v1:"), ("v1", Some("".as_ref())));
        assert_eq!(split("v1:a:b"), ("v1", Some("a:b".as_ref())));
        assert!(with_path(OsStr::from_bytes(b"\xff:a")).is_err());
    }

    #[test]
    fn head_may_be_written_in_capitals() {
        let (repository, ids) = with_snapshots(1);
        let update = elevo_engine::ReferenceUpdate {
            name: HEAD.into(),
            expected: elevo_engine::Expected::Absent,
            target: Some(ids[0]),
        };
        let commit = Commit {
            references: vec![update],
            ..Commit::default()
        };
        wait(repository.store().commit(TenantId::LOCAL, commit)).unwrap();
        for name in ["head", "HEAD"] {
            assert_eq!(resolve(&repository, None, name).unwrap().0, ids[0]);
        }
    }

    #[test]
    fn the_search_for_digits_starts_at_the_id_before_them() {
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
