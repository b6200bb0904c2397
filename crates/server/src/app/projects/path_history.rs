//! The changes of a file, or of a directory and everything in it.

use elevo_catalog::{FileVersion, MAX_PAGE};
use elevo_core::TreePath;

use crate::app::projects::Projects;
use crate::app::projects::history::version_out;
use crate::app::projects::reading::Seen;
use crate::failure::Result;

impl Projects {
    /// Returns at most `limit` steps that changed a path, something below it, or a
    /// directory above it as a whole, newest first. Each step has one change: the
    /// one of the path itself, or else the first below that the principal may see.
    pub(super) async fn changes_at(
        &self,
        seen: &Seen,
        path: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>> {
        let project = &seen.project.id;
        let mut found = self
            .catalog
            .versions_of(project, path, before, limit)
            .await?;
        let below = self
            .catalog
            .versions_below(project, path, before, limit)
            .await?;
        for version in below {
            if found.iter().all(|it| it.sequence != version.sequence) {
                found.push(self.first_shown(seen, path, version).await?);
            }
        }
        found.sort_by_key(|version| std::cmp::Reverse(version.sequence));
        found.truncate(limit as usize);
        Ok(found)
    }

    /// Returns the first change of a step below a directory that the principal may
    /// see, from `first` on; `first` if there is none.
    async fn first_shown(
        &self,
        seen: &Seen,
        directory: &TreePath,
        first: FileVersion,
    ) -> Result<FileVersion> {
        if version_out(&seen.view, &first).is_some() {
            return Ok(first);
        }
        let mut after = first.change.path.clone();
        loop {
            let (project, step) = (&seen.project.id, first.sequence);
            let page = self
                .catalog
                .versions_in(project, step, Some(&after), MAX_PAGE)
                .await?;
            let is_last = page.len() < MAX_PAGE as usize;
            for version in page {
                let path = &version.change.path;
                if !path.starts_with(directory) {
                    return Ok(first);
                }
                if version_out(&seen.view, &version).is_some() {
                    return Ok(version);
                }
                after = path.clone();
            }
            if is_last {
                return Ok(first);
            }
        }
    }
}
