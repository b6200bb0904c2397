//! The earlier state of a directory that is read again.

use elevo_core::Name;
use elevo_objects::{DirItem, TimeItem};

use super::{Known, KnownEntry, TreeWithTimes};
use crate::error::Result;
use crate::repository::Repository;
use crate::stat_cache::CachedDirectory;
use crate::tree::AscendingLookup;

/// A directory in an earlier snapshot, read alongside the one on disk.
pub(super) struct EarlierDirectory {
    entries: Option<AscendingLookup<DirItem>>,
    times: Option<AscendingLookup<TimeItem>>,
    seen: Option<CachedDirectory>,
}

impl EarlierDirectory {
    pub(super) async fn open(
        repository: &Repository,
        known: Option<TreeWithTimes>,
        mut seen: Option<CachedDirectory>,
    ) -> Result<Self> {
        if let Some(seen) = &mut seen {
            seen.rewind();
        }
        let Some((tree, times)) = known else {
            return Ok(Self {
                entries: None,
                times: None,
                seen,
            });
        };
        Ok(Self {
            entries: Some(AscendingLookup::open(repository, tree.root, None).await?),
            times: Some(AscendingLookup::open(repository, times, None).await?),
            seen,
        })
    }

    /// Returns the earlier state of the names of a window. Windows come in
    /// ascending order.
    pub(super) async fn known<T>(&mut self, window: &[(Name, T)]) -> Result<Known> {
        let mut known = Known::new();
        let (Some(entries), Some(times)) = (&mut self.entries, &mut self.times) else {
            return Ok(known);
        };
        for (name, _) in window {
            let Some(item) = entries.find(name).await? else {
                continue;
            };
            let time = times.find(name).await?.map(|item| item.entry);
            let seen = self.seen.as_mut().and_then(|seen| seen.find(name));
            let entry = item.entry;
            known.insert(item.name, KnownEntry { entry, time, seen });
        }
        Ok(known)
    }
}
