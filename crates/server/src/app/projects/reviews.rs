//! Reviews: lists, shows and expires changes that were held back and wait for a
//! decision. The submodule `resolve` carries out decisions.

mod resolve;

use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{Project, Review, ReviewChange, ReviewQuery, ReviewState};
use elevo_core::{ErrorCode, ReviewId, TreePath};
use elevo_engine::Error as EngineError;
use elevo_objects::Entry;
use elevo_policy::{Access, Policy, View};

use crate::app::access::names::Names;
use crate::app::access::principal::Principal;
use crate::app::files::content::Content;
use crate::app::missing::no_review;
use crate::app::pages::{self, PageQuery};
use crate::app::projects::landing::Landings;
use crate::app::projects::landing::prepare::Preparer;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::projects::{Projects, out, policies};
use crate::app::resources::Resources;
use crate::app::snapshots::Snapshots;
use crate::app::tenant_stores::TenantStores;
use crate::app::timekeeping::Timekeeper;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// The filters of a list of reviews.
#[derive(Clone, Debug)]
pub(crate) struct ReviewsQuery {
    pub(crate) project: Option<ProjectRef>,
    pub(crate) workspace: Option<String>,
    pub(crate) state: Option<api::ReviewState>,
    pub(crate) page: PageQuery,
}

/// One of the three sides of the merge that opened a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Base,
    Ours,
    Theirs,
}

/// Lists and decides the reviews of changes that conflict or that a policy holds
/// back.
pub(crate) struct Reviews {
    catalog: Arc<dyn Catalog>,
    names: Arc<Names>,
    stores: Arc<TenantStores>,
    time: Arc<Timekeeper>,
    landings: Arc<Landings>,
    preparer: Arc<Preparer>,
    projects: Arc<Projects>,
    snapshots: Arc<Snapshots>,
}

impl Reviews {
    pub(crate) fn new(
        resources: &Resources,
        landings: &Arc<Landings>,
        preparer: &Arc<Preparer>,
        projects: &Arc<Projects>,
        snapshots: &Arc<Snapshots>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            names: resources.names.clone(),
            landings: landings.clone(),
            preparer: preparer.clone(),
            projects: projects.clone(),
            snapshots: snapshots.clone(),
            stores: resources.stores.clone(),
            time: resources.time.clone(),
        }
    }

    pub(crate) async fn list(
        &self,
        who: &Principal,
        wanted: ReviewsQuery,
    ) -> Result<api::ReviewPage> {
        who.needs(Scope::ProjectsRead)?;
        let project = match &wanted.project {
            Some(name) => Some(self.projects.find(who, name).await?.id),
            None => None,
        };
        let workspace = match &wanted.workspace {
            Some(text) => Some(self.names.workspace(who, text).await?),
            None => None,
        };
        let mut query = ReviewQuery {
            project,
            workspace,
            state: wanted.state.map(state_in),
            after: wanted.page.position()?,
            limit: wanted.page.limit,
            ..ReviewQuery::of(who.tenant)
        };
        let mut items = Vec::new();
        loop {
            let page = self.catalog.reviews(&query).await?;
            for review in &page.items {
                let Some(view) = self.view(who, review).await? else {
                    continue;
                };
                items.push(review_out(who, &view, review));
                if items.len() >= query.limit as usize {
                    // The cursor contains the id of a review, so it must be one
                    // that the principal may see.
                    let next = Some(pages::of_position(&review.position()));
                    return Ok(api::ReviewPage { items, next });
                }
            }
            query.after = match page.items.last() {
                Some(last) if page.items.len() >= query.limit as usize => Some(last.position()),
                _ => return Ok(api::ReviewPage { items, next: None }),
            };
        }
    }

    /// Returns the principal's view of the project of a review; `None` if the
    /// path of the review is hidden from the principal.
    async fn view(&self, who: &Principal, review: &Review) -> Result<Option<View>> {
        if who.agent.is_none() {
            let everything = policies::compile(&Policy::default())?;
            return Ok(Some(everything.for_agent(None)));
        }
        let Some(project) = self.catalog.project(who.tenant, &review.project).await? else {
            return Ok(None);
        };
        let view = self.projects.view(who, &project).await?;
        let is_shown = |path: &TreePath| view.access(path) != Access::None;
        let from = out::moved_from(review);
        let is_shown = is_shown(&review.path) && from.is_none_or(|from| is_shown(&from));
        Ok(is_shown.then_some(view))
    }

    /// Returns a review that the principal may see, with its project and the
    /// principal's view of the project.
    async fn visible(&self, who: &Principal, id: &ReviewId) -> Result<(Review, Project, View)> {
        let missing = || no_review(id);
        let review = self.catalog.review(who.tenant, id).await?;
        let review = review.ok_or_else(missing)?;
        let view = self.view(who, &review).await?;
        let view = view.ok_or_else(missing)?;
        let project = self
            .projects
            .find(who, &review.project.clone().into())
            .await?;
        Ok((review, project, view))
    }

    pub(crate) async fn get(&self, who: &Principal, id: &ReviewId) -> Result<api::Review> {
        who.needs(Scope::ProjectsRead)?;
        let (review, _, view) = self.visible(who, id).await?;
        Ok(review_out(who, &view, &review))
    }

    /// Opens the file of one side of a review; `None` if that side has no file.
    pub(crate) async fn content(
        self: &Arc<Self>,
        who: &Principal,
        id: &ReviewId,
        side: Side,
    ) -> Result<Option<Content>> {
        who.needs(Scope::ProjectsRead)?;
        let (review, ..) = self.visible(who, id).await?;
        let entry = match side {
            Side::Base => review.sides.base,
            Side::Ours => review.sides.ours,
            Side::Theirs => review.sides.theirs,
        };
        match entry {
            None | Some(Entry::Directory { .. }) => Ok(None),
            Some(entry) => {
                let repository = self.stores.repository(who.tenant);
                match Content::open(&self.stores, &repository, &entry).await {
                    // Garbage collection keeps the sides of open reviews only.
                    Err(EngineError::MissingObject(_)) if review.state != ReviewState::Open => {
                        let message = "the review is closed, and garbage collection has deleted \
                                       the content of this side";
                        Err(Failure::new(ErrorCode::VersionDropped, message))
                    }
                    content => Ok(Some(content?)),
                }
            }
        }
    }

    /// Closes the reviews that have expired without a decision.
    pub(crate) async fn expire(&self) -> Result<()> {
        let now = self.time.now().await?;
        for review in self
            .catalog
            .expired_reviews_of_all_tenants(now, elevo_catalog::MAX_PAGE)
            .await?
        {
            let change = ReviewChange::new(ReviewState::Open, ReviewState::Expired);
            let (tenant, id) = (review.tenant, &review.id);
            match self.catalog.change_review(tenant, id, &change, now).await {
                // `Changed` means that a request has closed the review.
                Ok(_) | Err(elevo_catalog::Error::Changed { .. }) => {}
                Err(error) => {
                    let cause = crate::failure::chain(&error);
                    tracing::error!(review = %id, cause, "cannot close an expired review");
                }
            }
        }
        Ok(())
    }
}

const fn state_in(state: api::ReviewState) -> ReviewState {
    match state {
        api::ReviewState::Open => ReviewState::Open,
        api::ReviewState::Resolved => ReviewState::Resolved,
        api::ReviewState::Rejected => ReviewState::Rejected,
        api::ReviewState::Superseded => ReviewState::Superseded,
        api::ReviewState::Expired => ReviewState::Expired,
    }
}

const fn state_out(state: ReviewState) -> api::ReviewState {
    match state {
        ReviewState::Open => api::ReviewState::Open,
        ReviewState::Resolved => api::ReviewState::Resolved,
        ReviewState::Rejected => api::ReviewState::Rejected,
        ReviewState::Superseded => api::ReviewState::Superseded,
        ReviewState::Expired => api::ReviewState::Expired,
    }
}

fn review_out(who: &Principal, view: &View, review: &Review) -> api::Review {
    let sides = &review.sides;
    let version = |entry: &Option<Entry>| Some(out::version(view, &review.path, entry.as_ref()?));
    let text = |name: &str| review.detail[name].as_str().unwrap_or_default().to_owned();
    let decided = |name: &str| {
        let value = review.resolution.as_ref()?[name].as_str()?;
        Some(value.to_owned()).filter(|text| !text.is_empty())
    };
    let resolution = review.resolution.as_ref();
    api::Review {
        id: review.id.to_string(),
        project: review.project.to_string(),
        workspace: review.workspace.as_ref().map(ToString::to_string),
        agent: review.agent.as_ref().map(ToString::to_string),
        state: state_out(review.state),
        conflict: api::Conflict {
            path: out::path_text(&review.path),
            from: out::moved_from(review).map(|path| out::path_text(&path)),
            kind: review.kind.clone(),
            review_id: Some(review.id.to_string()),
            base_version: version(&sides.base),
            project_version: version(&sides.ours),
            workspace_version: version(&sides.theirs),
            hunks: serde_json::from_value(review.detail["hunks"].clone()).unwrap_or_default(),
            suggestion: text("suggestion"),
            reason: text("reason"),
        },
        base_snapshot: sides.base_snapshot.to_string(),
        project_snapshot: sides.ours_snapshot.to_string(),
        workspace_snapshot: sides.theirs_snapshot.to_string(),
        reopened: review.reopened,
        created_at: clock::text(review.created),
        expires_at: review.expires.map(clock::text),
        closed_at: review.closed.map(clock::text),
        closed_by: review.closed_by.clone(),
        successor: review.successor.as_ref().map(ToString::to_string),
        closed_by_name: decided("name"),
        take: resolution.and_then(|value| serde_json::from_value(value["take"].clone()).ok()),
        decision_message: decided("message"),
        message: Some(out::message_of(review).to_owned()).filter(|text| !text.is_empty()),
        may_decide: review.state == ReviewState::Open && who.may_decide(review.agent.as_ref()),
    }
}
