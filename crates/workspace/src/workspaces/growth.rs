//! Limits the growth of workspaces on a disk that is nearly full.

use std::io;
use std::mem;

use super::Workspaces;
use crate::error::{Error, Result};
use crate::provider::Volume;
use crate::record::State;

/// Growth in bytes that is always allowed, so that a workspace can still be
/// mounted and small files in it replaced.
const SLACK: u64 = 1 << 20;

impl Workspaces {
    /// The number of workspaces that are not parked.
    pub fn count_live(&self) -> Result<usize> {
        let records = self.list()?;
        let live = records.iter().filter(|record| record.state == State::Live);
        Ok(live.count())
    }

    /// Sets the limit of each workspace that has one to its current usage plus
    /// `growth` bytes and 1 MiB; `None` restores the limits of the records.
    /// A program that writes more gets "disk quota exceeded". Continues after
    /// an error, and returns the first.
    pub fn cap_growth(&self, growth: Option<u64>) -> Result<()> {
        let mut result = Ok(());
        if growth.is_some()
            && let Some(volume) = self.volume()
        {
            result = volume.sync();
        }
        let mut caps = self.caps.lock();
        let before = mem::take(&mut *caps);
        for record in self.list()? {
            let (State::Live, Some(limit)) = (record.state, record.limit) else {
                continue;
            };
            let live_dir = self.live_dir(&record.id);
            let Some(limits) = self.provider_of(&record).limits(&live_dir) else {
                continue;
            };
            let cap = |growth| -> Result<u64> {
                let used = limits.used()?.unwrap_or_default();
                let most = used.saturating_add(growth + SLACK);
                // Without growth, the cap of the last call stays: the workspace
                // could grow by the slack at each call otherwise.
                let known = before.get(&record.id).filter(|_| growth == 0);
                Ok(known.map_or(most, |known| most.min(*known)))
            };
            let set = growth.map_or(Ok(limit), cap).and_then(|cap| {
                let set = cap.min(limit);
                caps.insert(record.id.clone(), set);
                limits.set_limit(set)
            });
            result = match set {
                // The workspace was removed in the meantime.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => result,
                set => result.and(set),
            };
        }
        result
    }

    /// Returns the space of deleted workspaces to the disk, where the file
    /// system would do so only later.
    pub fn trim_volume(&self) -> Result<()> {
        self.volume().map_or(Ok(()), Volume::trim)
    }

    /// The volume of the pool, which all providers share.
    pub(super) fn volume(&self) -> Option<&dyn Volume> {
        let mut providers = self.providers.values();
        providers.find_map(|provider| provider.volume())
    }
}
