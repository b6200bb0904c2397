//! The effects of a decision on its review and on the workspace of the review.

use crate::app::projects::landing::job::Decision;
use crate::app::projects::landing::prepare::{LandingBase, Preparer, Staged, agreed_info};
use crate::app::projects::out;
use crate::app::projects::trees::put;
use crate::failure::Result;
use elevo_catalog::{
    BaseMove, Review, ReviewChange, ReviewState, ReviewStep, Sides as ReviewSides,
};
use elevo_engine::StateTree;
use elevo_merge::{Merged, TreeMerge, Versions};
use serde_json::Value;

impl Preparer {
    /// Returns the change of the review that a job decides. If the decision
    /// conflicts with the current head, the review stays open, with that head as
    /// its side `ours`.
    pub(super) async fn decided(
        &self,
        decision: &Decision,
        base: &LandingBase,
        merge: &TreeMerge,
    ) -> Result<ReviewStep> {
        let Decision { review, change } = decision;
        let mut change = change.clone();
        if !merge.conflicts.is_empty() {
            let sides = ReviewSides {
                ours: base.tree.entry(&review.path).await?,
                ours_snapshot: base.head,
                ..review.sides.clone()
            };
            change = ReviewChange::new(ReviewState::Open, ReviewState::Open);
            let detail = self.detail_of(review, &sides).await?;
            change.detail = Some(out::with_message(detail, out::message_of(review)));
            change.sides = Some(sides);
        }
        Ok(ReviewStep {
            id: review.id.clone(),
            change,
        })
    }

    /// Adds the change of a decided review to the base of its workspace, so
    /// that the next merge of the workspace does not open the same review.
    /// Returns `None` if the review has no workspace or the workspace was
    /// deleted.
    pub(super) async fn settled(
        &self,
        base: &LandingBase,
        decision: &Decision,
        commits: &mut Vec<Staged>,
    ) -> Result<Option<BaseMove>> {
        let review = &decision.review;
        let Some(id) = &review.workspace else {
            return Ok(None);
        };
        let Some(row) = self.catalog.workspace(review.tenant, id).await? else {
            return Ok(None);
        };
        let tree = StateTree::open(&base.repository, row.base).await?;
        put(&tree, &review.path, review.sides.theirs.clone()).await?;
        if let Some(from) = out::moved_from(review) {
            put(&tree, &from, None).await?;
        }
        let (agreed, commit) = tree.staged(agreed_info(base, id)).await?;
        commits.push(Staged { commit, tree });
        Ok(Some(BaseMove {
            expected: row.base,
            base: agreed,
            synced: row.synced,
            settled: Vec::new(),
        }))
    }

    /// Returns the stored details of a review for these sides.
    pub(super) async fn detail_of(&self, review: &Review, sides: &ReviewSides) -> Result<Value> {
        let from = out::moved_from(review);
        let from = from.as_ref();
        Ok(match self.merged(review, sides).await? {
            Merged::Conflict(found) => out::detail(from, &found.hunks, "merged", found.reason),
            _ => out::detail(from, &[], "theirs", "it is the later one"),
        })
    }

    /// Merges the sides of a review with the driver that found the conflict.
    pub(crate) async fn merged(&self, review: &Review, sides: &ReviewSides) -> Result<Merged> {
        let driver = self.drivers.named(&review.algorithm);
        let (Some(driver), Some(ours), Some(theirs)) = (driver, &sides.ours, &sides.theirs) else {
            return Ok(Merged::NotMine);
        };
        let repository = self.stores.repository(review.tenant);
        let base = match &sides.base {
            Some(entry) => Some(repository.bytes(entry).await?),
            None => None,
        };
        let versions = Versions {
            base: base.as_deref(),
            ours: &repository.bytes(ours).await?,
            theirs: &repository.bytes(theirs).await?,
        };
        Ok(driver.merge(&versions))
    }
}
