//! Workspaces on a disk that is nearly full.

use std::io;
use std::mem;
use std::sync::PoisonError;

use super::Workspaces;
use crate::error::{Error, Result};
use crate::provider::{ProviderKind, WorkspaceProvider};
use crate::record::State;

/// A workspace that may not grow can still be mounted and have small files
/// replaced.
const SLACK: u64 = 1 << 20;

impl Workspaces {
    /// The number of workspaces that are not parked.
    pub fn count_live(&self) -> Result<usize> {
        let records = self.list()?;
        let live = records.iter().filter(|record| record.state == State::Live);
        Ok(live.count())
    }

    /// Lets no workspace that has a limit grow by more than `growth` bytes from
    /// now on, and a little; `None` gives every workspace its own limit back. A
    /// program that writes more is refused with "disk quota exceeded". Goes on
    /// after an error, and returns the first.
    pub fn cap_growth(&self, growth: Option<u64>) -> Result<()> {
        let mut result = Ok(());
        if growth.is_some()
            && let Some(overlays) = self.overlays()
        {
            result = overlays.sync();
        }
        let mut caps = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        let before = mem::take(&mut *caps);
        for record in self.list()? {
            let (State::Live, Some(limit)) = (record.state, record.limit) else {
                continue;
            };
            let cap = |growth| -> Result<u64> {
                let used = self.provider_of(&record).used(&self.place(&record.id))?;
                let most = used.unwrap_or_default().saturating_add(growth + SLACK);
                // Otherwise it would grow by the slack each time.
                let known = before.get(&record.id).filter(|_| growth == 0);
                Ok(known.map_or(most, |known| most.min(*known)))
            };
            let set = growth.map_or(Ok(limit), cap).and_then(|cap| {
                let set = cap.min(limit);
                caps.insert(record.id.clone(), set);
                self.provider_of(&record)
                    .set_limit(&self.place(&record.id), set)
            });
            result = match set {
                // It was removed meanwhile.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => result,
                set => result.and(set),
            };
        }
        result
    }

    /// Gives the room of removed workspaces back to the disk, where the file
    /// system would do so only later.
    pub fn give_back(&self) -> Result<()> {
        self.overlays()
            .map_or(Ok(()), |overlays| overlays.give_back())
    }

    fn overlays(&self) -> Option<&dyn WorkspaceProvider> {
        let overlays = self.providers.get(&ProviderKind::Overlay);
        overlays.map(|overlays| &**overlays)
    }
}
