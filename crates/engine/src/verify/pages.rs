//! Lists hashes and refs, and skips the parts of a list that cannot be read.

use elevo_objects::{Hash, SnapshotId};

use crate::error::Result;
use crate::store::StoreResult;

use super::unreadable;

/// Hashes listed at a time.
const PAGE: usize = 4096;

/// A list of hashes in the order of their bytes, page by page.
pub(crate) struct Pages {
    after: Option<Hash>,
    limit: usize,
    done: bool,
    /// Number of parts that could not be read.
    pub(crate) gaps: u64,
}

impl Pages {
    pub(crate) const fn new() -> Self {
        Self {
            after: None,
            limit: PAGE,
            done: false,
            gaps: 0,
        }
    }

    /// Returns the next hashes; `None` at the end. `list` returns the hashes
    /// after a given one, at most a given number of them. Fails if the store is
    /// away.
    pub(crate) async fn next(
        &mut self,
        list: impl AsyncFn(Option<Hash>, usize) -> StoreResult<Vec<Hash>>,
    ) -> Result<Option<Vec<Hash>>> {
        while !self.done {
            if let Some(page) = readable(list(self.after, self.limit).await)? {
                self.done = page.len() < self.limit;
                self.after = page.last().copied().or(self.after);
                self.limit = (self.limit * 2).min(PAGE);
                return Ok(Some(page));
            }
            // List one by one up to the unreadable part; then skip it.
            if self.limit > 1 {
                self.limit = 1;
            } else {
                self.gaps += 1;
                self.after = behind(self.after, &list).await?;
                self.done = self.after.is_none();
            }
        }
        Ok(None)
    }
}

/// Returns the result of a read; `None` if something that it reads is damaged. Fails
/// if the store is away.
pub(crate) fn readable<T>(page: StoreResult<T>) -> Result<Option<T>> {
    match page {
        Ok(page) => Ok(Some(page)),
        Err(error) => unreadable(error).map(|_| None),
    }
}

/// Returns a position closely behind the unreadable part of a list that begins
/// after `after`; `None` if no position behind it can be read. Treats hashes as
/// numbers: first doubles the distance until a position can be read, then
/// bisects.
async fn behind(
    after: Option<Hash>,
    list: &impl AsyncFn(Option<Hash>, usize) -> StoreResult<Vec<Hash>>,
) -> Result<Option<Hash>> {
    let from = after.map_or(0, number);
    let (mut bad, mut step) = (from, Some(1_u128));
    let mut good = loop {
        let Some(at) = step.and_then(|step| from.checked_add(step)) else {
            return Ok(None);
        };
        if readable(list(Some(hash(at)), 1).await)?.is_some() {
            break at;
        }
        bad = at;
        step = step.and_then(|step| step.checked_mul(2));
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        match readable(list(Some(hash(middle)), 1).await)? {
            Some(_) => good = middle,
            None => bad = middle,
        }
    }
    Ok(Some(hash(good)))
}

/// Refs listed at a time.
const REFERENCES: usize = 256;
/// Sorts after every other character of a name.
const LAST: &str = "\u{10ffff}";

/// Refs in the order of their names, page by page.
pub(crate) struct ReferencePages {
    after: Option<String>,
    done: bool,
    /// Number of parts that could not be read.
    pub(crate) gaps: u64,
}

impl ReferencePages {
    pub(crate) const fn new() -> Self {
        Self {
            after: None,
            done: false,
            gaps: 0,
        }
    }

    /// Returns the next refs; `None` at the end. `list` returns the refs after a
    /// given name, at most a given number of them. Fails if the store is away.
    pub(crate) async fn next(
        &mut self,
        list: impl AsyncFn(Option<String>, usize) -> StoreResult<Vec<(String, SnapshotId)>>,
    ) -> Result<Option<Vec<(String, SnapshotId)>>> {
        while !self.done {
            for limit in [REFERENCES, 1] {
                let Some(page) = readable(list(self.after.clone(), limit).await)? else {
                    continue;
                };
                self.done = page.len() < limit;
                if let Some((name, _)) = page.last() {
                    self.after = Some(name.clone());
                }
                return Ok(Some(page));
            }
            // The next ref cannot be read.
            self.gaps += 1;
            let behind = behind_name(self.after.take().unwrap_or_default(), &list);
            self.after = behind.await?;
            self.done = self.after.is_none();
        }
        Ok(None)
    }
}

/// Returns a name behind the unreadable refs that begin after `name`.
async fn behind_name(
    mut name: String,
    list: &impl AsyncFn(Option<String>, usize) -> StoreResult<Vec<(String, SnapshotId)>>,
) -> Result<Option<String>> {
    loop {
        let next = format!("{name}{LAST}");
        if readable(list(Some(next.clone()), 1).await)?.is_some() {
            return Ok(Some(next));
        }
        if name.pop().is_none() {
            return Ok(None);
        }
    }
}

/// The first half of a hash, as a number.
pub(super) fn number(hash: Hash) -> u128 {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    u128::from_be_bytes(half)
}

fn hash(number: u128) -> Hash {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&number.to_be_bytes());
    Hash::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Bound;

    use elevo_objects::Kind;
    use futures::executor::block_on;

    use super::*;
    use crate::store::StoreError;

    fn is_in(parts: &[(usize, usize)], at: usize) -> bool {
        parts.iter().any(|(from, to)| (*from..*to).contains(&at))
    }

    /// Lists `all`; a page that would contain one of `bad` fails.
    fn list_around(all: &BTreeSet<Hash>, bad: &[(usize, usize)]) -> (Vec<Hash>, u64) {
        let order: Vec<_> = all.iter().copied().collect();
        let is_bad = |hash: &Hash| {
            let at = order.iter().position(|other| other == hash);
            at.is_some_and(|at| is_in(bad, at))
        };
        let list = async |after: Option<Hash>, limit: usize| {
            let after = after.map_or(Bound::Unbounded, Bound::Excluded);
            let page = all.range((after, Bound::Unbounded)).take(limit);
            if page.clone().any(is_bad) {
                Err(StoreError::Damaged("a block".into()))
            } else {
                Ok(page.copied().collect())
            }
        };
        let mut pages = Pages::new();
        let mut found = Vec::new();
        while let Some(page) = block_on(pages.next(list)).unwrap() {
            found.extend(page);
        }
        (found, pages.gaps)
    }

    #[test]
    fn lists_everything_except_the_unreadable_parts() {
        let all: BTreeSet<_> = (0..500_u32)
            .map(|n| Kind::Chunk.hash(&n.to_le_bytes()))
            .collect();
        let bad_parts: [&[(usize, usize)]; 6] = [
            &[],
            &[(0, 1)],
            &[(0, 60)],
            &[(100, 160), (300, 301)],
            &[(440, 500)],
            &[(0, 500)],
        ];
        for bad in bad_parts {
            let (found, gaps) = list_around(&all, bad);
            let readable = all.iter().enumerate();
            let readable = readable.filter(|(at, _)| !is_in(bad, *at));
            let expected: Vec<_> = readable.map(|(_, hash)| *hash).collect();
            assert_eq!(found, expected, "{bad:?}");
            assert_eq!(gaps, bad.len() as u64, "{bad:?}");
        }
    }
}
