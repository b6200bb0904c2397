use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, TreePath};

use crate::error::Result;
use crate::records::FileVersion;

/// The history of the paths of projects. Paths are in the order of [`TreePath`].
/// For an unknown project the calls find nothing.
#[async_trait]
pub trait Versions {
    /// Returns the history of a path, newest first, with at most `limit` entries:
    /// the changes of the path itself and of directories above it that were added,
    /// deleted or replaced as a whole; only landings before a sequence number if
    /// one is given. Has one entry for each landing: the one for the longest path.
    async fn versions_of(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        path: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>>;

    /// Returns the landings that changed something below a directory, newest
    /// first, at most `limit`, each with the first path that it changed there;
    /// only landings before a sequence number if one is given.
    async fn versions_below(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        directory: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>>;

    /// Returns the newest entry of [`versions_of`](Self::versions_of).
    async fn last_version(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        path: &TreePath,
    ) -> Result<Option<FileVersion>>;

    /// Returns at most `limit` changes of a landing, by path; only those after a
    /// path if one is given.
    async fn versions_in(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        sequence: u64,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<FileVersion>>;
}
