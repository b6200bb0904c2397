//! Carries out decisions on reviews by landing the chosen content.

use crate::app::access::principal::Principal;
use crate::app::missing::no_review;
use crate::app::projects::landing::job::{Decision, Job};
use crate::app::projects::out;
use crate::app::projects::reviews::Reviews;
use crate::app::projects::trees::{committed, put};
use crate::app::requests::once::Once;
use crate::app::snapshots::{Kept, SHARED, info};
use crate::failure::{Failure, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{LandingKind, Review, ReviewChange, ReviewState};
use elevo_core::{ErrorCode, ReviewId};
use elevo_engine::{Attributes, StateTree};
use elevo_merge::Merged;
use elevo_objects::Entry;
use serde_json::json;
use std::sync::Arc;

/// Writes the decided content to the path of a review, with the mode of the
/// first side that is a file.
pub(super) async fn write(tree: &StateTree, review: &Review, bytes: Vec<u8>) -> Result<()> {
    let mode = [&review.sides.theirs, &review.sides.ours, &review.sides.base]
        .into_iter()
        .find_map(|entry| match entry {
            Some(Entry::File { mode, .. }) => Some(*mode),
            _ => None,
        });
    put(tree, &review.path, None).await?;
    let attributes = Attributes {
        mode,
        modified: None,
    };
    Ok(tree.write(&review.path, bytes.into(), attributes).await?)
}

/// Returns the content that the decision sends; `None` deletes the path.
pub(super) fn edited(wish: &api::ResolveReview) -> Result<Option<Vec<u8>>> {
    match (&wish.content, &wish.base64) {
        (Some(_), Some(_)) => Err(Failure::invalid("send only one of `content` and `base64`")),
        (Some(text), None) => Ok(Some(text.clone().into_bytes())),
        (None, Some(text)) => {
            let decoded = STANDARD.decode(text);
            decoded
                .map(Some)
                .map_err(|_| Failure::invalid("`base64` is not valid base64"))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the failure of a decision on a closed review.
pub(super) fn closed(review: &Review) -> Failure {
    let message = format!("the review is already {}", review.state);
    let failure = Failure::new(ErrorCode::ReviewClosed, message).about("review", &*review.id);
    match &review.successor {
        Some(successor) => failure.about("successor", &**successor),
        None => failure,
    }
}

impl Reviews {
    /// Carries out a decision: merges the chosen content into the current head
    /// and closes the review. If the merge conflicts, the review stays open with
    /// the new conflict.
    pub(crate) async fn resolve(
        self: &Arc<Self>,
        who: &Principal,
        id: &ReviewId,
        wish: api::ResolveReview,
        once: Once,
    ) -> Result<api::Review> {
        who.needs(Scope::Reviews)?;
        let (review, project, _) = self.visible(who, id).await?;
        self.check_decider(who, &review, wish.take)?;
        if self
            .landings
            .landed_before(&project, &once)
            .await?
            .is_some()
        {
            return self.get(who, id).await;
        }
        if review.state != ReviewState::Open {
            return Err(closed(&review));
        }
        let decision = self.decision(who, &review, &wish).await?;
        let ours = self
            .snapshots
            .keep(who.tenant, review.sides.ours_snapshot)
            .await?;
        let theirs = self.resolved_tree(who, &review, &ours, &wish).await?;
        let wish = api::Merge {
            message: match wish.message.is_empty() {
                true => format!("decided on {}", out::path_text(&review.path)),
                false => wish.message,
            },
            ..api::Merge::default()
        };
        let job = Job {
            kind: LandingKind::Resolve,
            base: Some(ours),
            agent: review.agent.clone(),
            decides: Some(decision),
            ..Job::new(who, &wish, theirs, once.landing())
        };
        self.landings.land(&project, job).await?;
        self.get(who, id).await
    }

    /// Carries out several decisions, one after the other.
    pub(crate) async fn resolve_many(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::ResolveReviews,
        once: &Once,
    ) -> Result<api::ReviewsResolved> {
        who.needs(Scope::Reviews)?;
        if wish.items.len() > 50 {
            return Err(Failure::invalid("`items` has more than 50 entries"));
        }
        let mut outcome = api::ReviewsResolved::default();
        for (number, item) in (1..).zip(wish.items) {
            let (id, wish) = (
                item.id,
                api::ResolveReview {
                    take: item.take,
                    content: item.content,
                    base64: item.base64,
                    message: item.message,
                },
            );
            let decided = match id.parse() {
                Ok(id) => self.resolve(who, &id, wish, once.part(number)).await,
                Err(_) => Err(no_review(&id)),
            };
            match decided {
                Ok(review) => outcome.succeeded.push(review),
                Err(failure) => outcome.failed.push(api::Failed {
                    id,
                    error: failure.body(""),
                }),
            }
        }
        Ok(outcome)
    }

    /// Denies a decision by which an agent approves its own change. The agent
    /// may reject the change or take the version of the project.
    pub(super) fn check_decider(
        &self,
        who: &Principal,
        review: &Review,
        take: api::Take,
    ) -> Result<()> {
        let own = who.agent.is_some() && who.agent == review.agent;
        let gives_up = matches!(take, api::Take::Nothing | api::Take::Project);
        match own && !gives_up {
            true => {
                let message = "an agent may not approve its own change";
                let failure = Failure::new(ErrorCode::Forbidden, message);
                Err(failure.remediation(
                    "Ask another agent or a person to decide, or take `nothing`, which rejects the change.",
                ))
            }
            false => Ok(()),
        }
    }

    pub(super) async fn decision(
        &self,
        who: &Principal,
        review: &Review,
        wish: &api::ResolveReview,
    ) -> Result<Decision> {
        let to = match wish.take {
            api::Take::Nothing => ReviewState::Rejected,
            _ => ReviewState::Resolved,
        };
        let (by, name) = match &who.agent {
            Some(agent) => {
                let found = self.catalog.agent(who.tenant, agent).await?;
                (agent.to_string(), found.map(|agent| agent.name))
            }
            None => (who.key.to_string(), Some(who.key_name.clone())),
        };
        Ok(Decision {
            review: review.clone(),
            change: ReviewChange {
                by: Some(by),
                resolution: Some(json!({
                    "take": wish.take,
                    "message": wish.message,
                    "name": name,
                })),
                ..ReviewChange::new(ReviewState::Open, to)
            },
        })
    }

    /// Returns a snapshot of the head that the review was opened against, with
    /// the decided content at the path of the review.
    pub(super) async fn resolved_tree(
        &self,
        who: &Principal,
        review: &Review,
        ours: &Kept,
        wish: &api::ResolveReview,
    ) -> Result<Kept> {
        let repository = self.stores.repository(who.tenant);
        let tree = StateTree::open(&repository, ours.id).await?;
        let path = &review.path;
        match wish.take {
            api::Take::Project | api::Take::Nothing => return Ok(ours.clone()),
            api::Take::Workspace => put(&tree, &review.path, review.sides.theirs.clone()).await?,
            api::Take::Suggested => match self.suggested(review).await? {
                Some(bytes) => write(&tree, review, bytes).await?,
                None => match review.detail["suggestion"].as_str() {
                    Some("project") => return Ok(ours.clone()),
                    _ => put(&tree, &review.path, review.sides.theirs.clone()).await?,
                },
            },
            api::Take::Edited => match edited(wish)? {
                Some(bytes) => write(&tree, review, bytes).await?,
                None => put(&tree, &review.path, None).await?,
            },
        }
        let mut info = info(who, format!("a decision on {}", out::path_text(path)));
        info.labels
            .insert(SHARED.into(), review.project.to_string());
        committed(&tree, info).await
    }

    /// Returns the content that the driver of the conflict suggests; `None` if
    /// no driver can merge the sides.
    pub(super) async fn suggested(&self, review: &Review) -> Result<Option<Vec<u8>>> {
        Ok(match self.preparer.merged(review, &review.sides).await? {
            Merged::Conflict(conflicted) => Some(conflicted.suggestion),
            Merged::Clean(bytes) => Some(bytes),
            Merged::NotMine => None,
        })
    }
}
