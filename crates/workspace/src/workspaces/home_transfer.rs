//! Carries the content of a home into forks, and through parking.

use std::collections::BTreeMap;
use std::path::Path;

use elevo_engine::{CommitInfo, Owner, Progress};
use elevo_objects::SnapshotId;
use futures::executor::block_on;

use super::Workspaces;
use super::locked::LockedWorkspace;
use super::snapshots::anonymous_snapshot;
use crate::error::Result;
use crate::home::{self, HomeContents};
use crate::provider::{ProviderKind, WorkspaceProvider};
use crate::record::Record;

impl Workspaces {
    /// Creates the home of a new workspace, and fills it with `contents`.
    pub(super) fn create_home(
        &self,
        provider: &dyn WorkspaceProvider,
        live_dir: &Path,
        owner: Option<Owner>,
        contents: Option<&HomeContents>,
        progress: &Progress,
    ) -> Result<()> {
        let home = provider.home(live_dir);
        home::create(&home, owner)?;
        match contents {
            Some(contents) => contents.fill(&home, owner, self.threads, progress),
            None => Ok(()),
        }
    }

    /// Reads a home for forks. The content goes into the store without a
    /// reference to it.
    pub(super) fn read_home(
        &self,
        record: &Record,
        locked: &LockedWorkspace,
        progress: &Progress,
    ) -> Result<Option<HomeContents>> {
        let home = self.provider_of(record).home(&locked.live_dir);
        let read = home::read(&self.repository, &home, self.threads, progress)?;
        Ok(read.map(|imported| HomeContents {
            snapshot: anonymous_snapshot(imported.tree, imported.times),
            view: imported.view(&self.repository),
            clone_source: (record.provider == ProviderKind::Reflink).then_some(home),
        }))
    }

    /// Stores a home as a snapshot; `None` if it is empty.
    pub(super) fn store_home(
        &self,
        record: &Record,
        locked: &LockedWorkspace,
        info: &CommitInfo,
        progress: &Progress,
    ) -> Result<Option<SnapshotId>> {
        let home = self.provider_of(record).home(&locked.live_dir);
        let read = home::read(&self.repository, &home, self.threads, progress)?;
        let Some(imported) = read else {
            return Ok(None);
        };
        let info = CommitInfo {
            parents: Vec::new(),
            author: info.author.clone(),
            message: format!("The home of workspace {}", record.id),
            created: info.created,
            labels: BTreeMap::new(),
            reference: None,
        };
        Ok(Some(block_on(imported.commit(&self.repository, info))?))
    }

    /// Returns the content that the home of a workspace had when it was parked.
    pub(super) fn load_home(&self, parked: &Record) -> Result<Option<HomeContents>> {
        let Some(home) = parked.home else {
            return Ok(None);
        };
        Ok(Some(HomeContents {
            snapshot: self.snapshot_of(home)?,
            view: self.repository.clone(),
            clone_source: None,
        }))
    }
}
