use async_trait::async_trait;
use elevo_core::{ReviewId, TenantId, Timestamp, TreePath, WorkspaceId};

use crate::error::Result;
use crate::query::Page;
use crate::records::{Review, ReviewChange, ReviewQuery};

/// Reviews. [`Landings::land`](crate::Landings::land) opens them.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 15. *A workspace has at most one open review for a path.*
#[async_trait]
pub trait Reviews {
    /// Returns a tenant's review by id.
    async fn review(&self, tenant: TenantId, id: &ReviewId) -> Result<Option<Review>>;

    /// Returns a page of reviews, oldest first.
    async fn reviews(&self, query: &ReviewQuery) -> Result<Page<Review>>;

    /// Returns at most `limit` open reviews of a workspace, in the order of
    /// [`TreePath`]; only those after a path if one is given.
    async fn open_reviews_of(
        &self,
        tenant: TenantId,
        workspace: &WorkspaceId,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<Review>>;

    /// Returns at most `limit` open reviews of all tenants that have expired at
    /// `now`, earliest expiry first.
    async fn expired_reviews_of_all_tenants(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Review>>;

    /// Changes a review without a landing; returns the changed review. Records
    /// the event of a review that opens again or ends. `NotFound`, `Changed` if it
    /// is not in the expected state, `Refused` if that state cannot become the new
    /// one, `Exists` if its workspace has another open review for the path,
    /// `Dropped` if it would be open and one of its sides is a dropped version.
    async fn change_review(
        &self,
        tenant: TenantId,
        id: &ReviewId,
        change: &ReviewChange,
        now: Timestamp,
    ) -> Result<Review>;
}
