use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId};

use crate::error::Result;
use crate::records::Tag;

/// Tags: names for versions of projects. For an unknown project the calls other
/// than [`set_tag`](Self::set_tag) find nothing.
#[async_trait]
pub trait Tags {
    /// Sets a tag. `Exists` if the project has a tag with that name and
    /// `may_move` is false; `NotFound` if the tenant has no such project;
    /// `BeingRemoved`; `Dropped` if the version is dropped; `LimitReached` if the
    /// project has [`MAX_LISTED`](crate::MAX_LISTED) other tags.
    async fn set_tag(&self, tenant: TenantId, tag: &Tag, may_move: bool) -> Result<()>;

    /// Returns a tag of a project by name.
    async fn tag(&self, tenant: TenantId, project: &ProjectId, name: &str) -> Result<Option<Tag>>;

    /// Returns at most `limit` tags of a project, by name in byte order; only
    /// those after a name if one is given.
    async fn tags(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Tag>>;

    /// Deletes a tag; returns `false` if there is none.
    async fn remove_tag(&self, tenant: TenantId, project: &ProjectId, name: &str) -> Result<bool>;
}
