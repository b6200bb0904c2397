//! Copies refs.

use elevo_objects::SnapshotId;

use super::Copy;
use crate::error::Result;
use crate::store::{Commit, Expected, ReferenceUpdate, Store};
use crate::verify::pages::ReferencePages;
use crate::verify::unreadable;

/// Refs listed at a time, to find those that only the target has.
const PAGE: usize = 256;

impl Copy<'_> {
    /// Sets the refs of `target` whose snapshots it has.
    pub(super) async fn set_references(
        &mut self,
        source: &dyn Store,
        target: &dyn Store,
    ) -> Result<()> {
        self.each_page(source, async |copy, page| {
            let mut updates = Vec::new();
            // Until the commit: a collection could delete a snapshot that has
            // no other ref.
            let mut held = Vec::new();
            for (name, id) in page {
                copy.progress.check()?;
                let current = target.reference(copy.tenant, &name).await?;
                if current == Some(id) {
                    continue;
                }
                match target.hold(copy.tenant, &[id]).await {
                    Ok(Some(hold)) => held.push(hold.guard),
                    Ok(None) => {
                        copy.failed_reference(name);
                        continue;
                    }
                    Err(error) => {
                        unreadable(error)?;
                        copy.failed_reference(name);
                        continue;
                    }
                }
                updates.push(ReferenceUpdate {
                    name,
                    expected: current.map_or(Expected::Absent, Expected::At),
                    target: Some(id),
                });
            }
            if updates.is_empty() {
                return Ok(());
            }
            let count = updates.len() as u64;
            let commit = Commit {
                references: updates,
                ..Commit::default()
            };
            target.commit(copy.tenant, commit).await?;
            copy.report.references_sent += count;
            Ok(())
        })
        .await
    }

    /// Compares the refs of `target` with those of `source`.
    pub(super) async fn compare_references(
        &mut self,
        source: &dyn Store,
        target: &dyn Store,
    ) -> Result<()> {
        self.each_page(source, async |copy, page| {
            for (name, id) in page {
                copy.progress.check()?;
                let found = match target.reference(copy.tenant, &name).await {
                    Ok(found) => found,
                    Err(error) => unreadable(error).map(|_| None)?,
                };
                if found != Some(id) {
                    copy.failed_reference(name);
                }
            }
            Ok(())
        })
        .await
    }

    async fn each_page(
        &mut self,
        source: &dyn Store,
        mut with: impl AsyncFnMut(&mut Self, Vec<(String, SnapshotId)>) -> Result<()>,
    ) -> Result<()> {
        let tenant = self.tenant;
        let list = async |after: Option<String>, limit| {
            let refs = source.list_references(tenant, "", after.as_deref(), limit);
            refs.await
        };
        let mut pages = ReferencePages::new();
        while let Some(page) = pages.next(list).await? {
            self.report.references += page.len() as u64;
            with(self, page).await?;
        }
        self.report.gaps += pages.gaps;
        Ok(())
    }

    /// Lists the refs that only `target` has.
    pub(super) async fn find_extra_references(
        &mut self,
        source: &dyn Store,
        target: &dyn Store,
    ) -> Result<()> {
        let tenant = self.tenant;
        let mut after: Option<String> = None;
        loop {
            self.progress.check()?;
            let page = target.list_references(tenant, "", after.as_deref(), PAGE);
            let page = page.await?;
            let last = page.get(PAGE - 1).map(|(name, _)| name.clone());
            for (name, _) in page {
                match source.reference(tenant, &name).await {
                    Ok(None) => self.extra_reference(name),
                    Ok(Some(_)) => {}
                    // It is there, though it cannot be read.
                    Err(error) => drop(unreadable(error)?),
                }
            }
            match last {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }
}
