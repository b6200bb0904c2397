//! Projects: creates, lists, changes and deletes them, and sets their policies.
//! The submodules have the files, the history, landings and reviews of a project.

pub(crate) mod changes;
pub(crate) mod heads;
pub(crate) mod history;
pub(crate) mod landing;
pub(crate) mod merges;
pub(crate) mod out;
mod path_history;
pub(crate) mod policies;
pub(crate) mod project_ref;
pub(crate) mod reading;
pub(crate) mod retention;
pub(crate) mod reviews;
pub(crate) mod steps;
pub(crate) mod tags;
pub(crate) mod trees;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{Project, ProjectChange, ProjectQuery, Workspace, WorkspaceQuery};
use elevo_core::{ProjectId, TenantId};
use elevo_engine::StateTree;
use elevo_policy::View;
use std::sync::Arc;

use crate::app::access::names::check_name;
use crate::app::access::principal::Principal;
use crate::app::missing::no_project;
use crate::app::pages::{self, PageQuery};
use crate::app::projects::policies::Policies;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::snapshots::{Kept, Snapshots, info};
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result};
use crate::platform::{audit, clock};

/// Manages projects: their files, history, policies, tags and retention. Holds a
/// cache of compiled policies.
pub(crate) struct Projects {
    catalog: Arc<dyn Catalog>,
    stores: Arc<TenantStores>,
    snapshots: Arc<Snapshots>,
    policies: Policies,
}

impl Projects {
    pub(crate) fn new(resources: &Resources, snapshots: &Arc<Snapshots>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            snapshots: snapshots.clone(),
            stores: resources.stores.clone(),
            policies: Policies::default(),
        }
    }

    /// Creates a project whose head is empty or the given snapshot.
    pub(crate) async fn create(
        &self,
        who: &Principal,
        wish: api::CreateProject,
        once: Once,
    ) -> Result<api::Project> {
        who.needs(Scope::ProjectsAdmin)?;
        let id = once.id();
        if once.is_again()
            && let Some(made) = self.catalog.project(who.tenant, &id).await?
        {
            return self.project_out(who, &made).await;
        }
        check_name(&wish.name)?;
        check_description(wish.description.as_deref())?;
        let policy = wish.policy.unwrap_or_default();
        let policy = self.bound_policy(who.tenant, &policy).await?;
        let head = match &wish.snapshot {
            Some(id) => self.snapshots.snapshot_id(who, id).await?,
            None => self.empty_head(who).await?,
        };
        let now = clock::now();
        let project = Project {
            id,
            tenant: who.tenant,
            name: wish.name,
            description: wish.description,
            head: head.id,
            sequence: 0,
            policy_version: 1,
            retention: retention::read(wish.retention.unwrap_or_default())?,
            created: now,
            updated: now,
            removing: false,
        };
        let policy = policies::stored(&policy)?;
        self.catalog.add_project(&project, &policy).await?;
        self.project_out(who, &project).await
    }

    async fn empty_head(&self, who: &Principal) -> Result<Kept> {
        let repository = self.stores.repository(who.tenant);
        let tree = StateTree::empty(&repository);
        let said = info(who, "initial state of a project".into());
        trees::committed(&tree, said).await
    }

    /// Returns the project of the principal's tenant with this id, or else the one
    /// with this name.
    pub(crate) async fn find(&self, who: &Principal, project: &ProjectRef) -> Result<Project> {
        let mut found = match project {
            ProjectRef::Id(id) => self.catalog.project(who.tenant, id).await?,
            ProjectRef::Name(_) => None,
        };
        let name = project.as_str();
        // A text in the form of an id can also be the name of a project.
        if found.is_none() {
            found = self.catalog.project_by_name(who.tenant, name).await?;
        }
        let found = found.filter(|project| !project.removing);
        let found = found.ok_or_else(|| no_project(name))?;
        // The audit log gets both the id and the name, because the request may
        // have only one of them.
        audit::about("project_id", found.id.as_str());
        audit::about("project", audit::cut(&found.name));
        Ok(found)
    }

    /// Returns the paths of a project that the principal may see and change.
    pub(crate) async fn view(&self, who: &Principal, project: &Project) -> Result<View> {
        let policy = self.compiled_policy(project).await?;
        Ok(policy.for_agent(who.agent.as_deref()))
    }

    pub(crate) async fn get(&self, who: &Principal, id: &ProjectRef) -> Result<api::Project> {
        who.needs(Scope::ProjectsRead)?;
        let project = self.find(who, id).await?;
        self.project_out(who, &project).await
    }

    pub(crate) async fn list(&self, who: &Principal, query: PageQuery) -> Result<api::ProjectPage> {
        who.needs(Scope::ProjectsRead)?;
        let page = self
            .catalog
            .projects(&ProjectQuery {
                tenant: Some(who.tenant),
                removing: Some(false),
                after: query.position()?,
                limit: query.limit,
            })
            .await?;
        let next = pages::next(&page.items, query.limit, Project::position);
        let mut items = Vec::new();
        for project in &page.items {
            items.push(self.project_out(who, project).await?);
        }
        Ok(api::ProjectPage { items, next })
    }

    pub(crate) async fn change(
        &self,
        who: &Principal,
        id: &ProjectRef,
        wish: api::ChangeProject,
    ) -> Result<api::Project> {
        who.needs(Scope::ProjectsAdmin)?;
        if let Some(name) = &wish.name {
            check_name(name)?;
        }
        check_description(wish.description.as_deref())?;
        let project = self.find(who, id).await?;
        let change = ProjectChange {
            name: wish.name,
            description: wish.description.map(Some),
            retention: wish.retention.map(retention::read).transpose()?,
        };
        let changed = self
            .catalog
            .change_project(who.tenant, &project.id, &change, clock::now())
            .await?;
        self.project_out(who, &changed).await
    }

    /// Deletes a project with its workspaces. Garbage collection deletes the
    /// snapshots that nothing else needs.
    pub(crate) async fn delete(&self, who: &Principal, id: &ProjectRef) -> Result<()> {
        who.needs(Scope::ProjectsAdmin)?;
        let project = self.find(who, id).await?;
        self.catalog
            .begin_removal(who.tenant, &project.id, clock::now())
            .await?;
        self.finish_removal(who.tenant, &project.id).await
    }

    /// Deletes the workspaces and then the rows of a project that is marked for
    /// deletion. Each step can be repeated, so the cleanup calls this after an
    /// interruption.
    pub(crate) async fn finish_removal(&self, tenant: TenantId, project: &ProjectId) -> Result<()> {
        for workspace in self.workspaces_on(tenant, project).await? {
            let id = workspace.id.clone();
            self.stores.remove_workspace(tenant, id).await?;
        }
        self.catalog.remove_project(tenant, project).await?;
        tracing::info!(%project, "project deleted");
        Ok(())
    }

    pub(crate) async fn policy(
        &self,
        who: &Principal,
        id: &ProjectRef,
    ) -> Result<api::ProjectPolicy> {
        who.needs(Scope::ProjectsRead)?;
        let project = self.find(who, id).await?;
        // A policy names the paths that are hidden from agents, so an agent
        // needs a further scope to read it.
        if who.agent.is_some() {
            who.needs(Scope::ProjectsAdmin)?;
        }
        let found = self.catalog.policy(who.tenant, &project.id).await?;
        let found = found.ok_or_else(|| no_project(id.as_str()))?;
        Ok(api::ProjectPolicy {
            version: found.version,
            policy: policies::read(found.policy)?,
        })
    }

    pub(crate) async fn set_policy(
        &self,
        who: &Principal,
        id: &ProjectRef,
        wish: api::SetPolicy,
        once: Once,
    ) -> Result<api::ProjectPolicy> {
        who.needs(Scope::ProjectsAdmin)?;
        let policy = self.bound_policy(who.tenant, &wish.policy).await?;
        let project = self.find(who, id).await?;
        let stored = policies::stored(&policy)?;
        // A retry: the first attempt may have set this policy before it failed.
        if let Some(version) = once.noted::<u64>() {
            let set = self.catalog.policy(who.tenant, &project.id).await?;
            if set.is_some_and(|set| (set.version, set.policy) == (version + 1, stored.clone())) {
                return Ok(api::ProjectPolicy {
                    version: version + 1,
                    policy,
                });
            }
        }
        let expected = wish.expected_version.unwrap_or(project.policy_version);
        once.note(&expected).await?;
        let changed = self
            .catalog
            .set_policy(who.tenant, &project.id, expected, &stored, clock::now())
            .await?;
        Ok(api::ProjectPolicy {
            version: changed.policy_version,
            policy,
        })
    }

    /// Converts a project to its form in the API. A principal from whom paths are
    /// hidden does not get the numbers of entries and bytes, which would reveal
    /// changes of hidden paths.
    async fn project_out(&self, who: &Principal, project: &Project) -> Result<api::Project> {
        let sees_all = !self.view(who, project).await?.hides_anything();
        let repository = self.stores.repository(project.tenant);
        let tree = repository.snapshot(project.head).await?.tree;
        Ok(api::Project {
            id: project.id.to_string(),
            name: project.name.clone(),
            description: project.description.clone(),
            head: project.head.to_string(),
            step: project.sequence,
            entries: sees_all.then_some(tree.count),
            bytes: sees_all.then_some(tree.bytes),
            policy_version: project.policy_version,
            retention: retention::out(project.retention),
            created_at: clock::text(project.created),
            updated_at: clock::text(project.updated),
        })
    }

    /// Returns the project of a workspace.
    pub(crate) async fn of_workspace(&self, row: &Workspace) -> Result<Project> {
        let id = row
            .project
            .as_ref()
            .ok_or_else(|| crate::app::missing::on_no_project(row))?;
        let found = self.catalog.project(row.tenant, id).await?;
        let found = found.filter(|project| !project.removing);
        found.ok_or_else(|| no_project(id))
    }

    /// Returns all workspaces of a project.
    pub(crate) async fn workspaces_on(
        &self,
        tenant: TenantId,
        project: &ProjectId,
    ) -> Result<Vec<Workspace>> {
        let mut query = WorkspaceQuery {
            tenant: Some(tenant),
            project: Some(project.clone()),
            ..WorkspaceQuery::default()
        };
        let mut all = Vec::new();
        loop {
            let page = self.catalog.workspaces(&query).await?;
            query.after = page.items.last().map(Workspace::position);
            let is_last = page.items.len() < query.limit as usize;
            all.extend(page.items);
            if is_last {
                return Ok(all);
            }
        }
    }
}

fn check_description(text: Option<&str>) -> Result<()> {
    match text {
        Some(text) if text.len() > 1000 => {
            Err(Failure::invalid("`description` has more than 1000 bytes"))
        }
        _ => Ok(()),
    }
}
