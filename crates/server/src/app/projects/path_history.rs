//! The changes of a file, or of a directory and everything in it.

use elevo_catalog::{FileVersion, MAX_PAGE};
use elevo_core::TreePath;

use crate::app::projects::Projects;
use crate::app::projects::history::{Rows, version_out};
use crate::app::projects::reading::Seen;
use crate::failure::Result;

impl Projects {
    /// Returns at most `limit` steps, newest first, that changed a path, a path
    /// below it, or a whole directory above it. Each step has one change: the
    /// change of the path itself or of a directory above it, or else the first
    /// change below the path that the principal may see.
    pub(super) async fn changes_at(
        &self,
        seen: &Seen,
        path: &TreePath,
        (before, limit): (Option<u64>, u32),
        rows: &mut Rows,
    ) -> Result<Vec<FileVersion>> {
        let (tenant, project) = (seen.project.tenant, &seen.project.id);
        let mut found = self
            .catalog
            .versions_of(tenant, project, path, before, limit)
            .await?;
        let below = self
            .catalog
            .versions_below(tenant, project, path, before, limit)
            .await?;
        for version in below {
            if found.iter().all(|it| it.sequence != version.sequence) {
                found.push(self.first_shown(seen, path, version, rows).await?);
            }
        }
        found.sort_by_key(|version| std::cmp::Reverse(version.sequence));
        found.truncate(limit as usize);
        Ok(found)
    }

    /// Returns the first change of a step that is below `directory` and that
    /// the principal may see, starting at `first`. Returns `first` if there is
    /// no such change, or if the rows of the response are used up before one is
    /// found.
    async fn first_shown(
        &self,
        seen: &Seen,
        directory: &TreePath,
        first: FileVersion,
        rows: &mut Rows,
    ) -> Result<FileVersion> {
        if version_out(&seen.view, &first).is_some() {
            return Ok(first);
        }
        let mut after = first.change.path.clone();
        loop {
            let (tenant, project) = (seen.project.tenant, &seen.project.id);
            let page = self
                .catalog
                .versions_in(tenant, project, first.sequence, Some(&after), MAX_PAGE)
                .await?;
            rows.look_at(page.len());
            let is_last = page.len() < MAX_PAGE as usize || rows.are_used_up();
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
