//! Decides which side of a conflict takes precedence, by the priorities of the
//! agents that made the two changes.

use elevo_catalog::{Catalog, Project};
use elevo_core::TreePath;
use elevo_merge::Precedence;
use elevo_policy::Compiled;

/// Compares the priorities that the policy of a project gives to two agents: the
/// agent that changed a path last, and the agent whose change lands.
pub(crate) struct ByPriority<'a> {
    pub(crate) catalog: &'a dyn Catalog,
    pub(crate) project: &'a Project,
    pub(crate) policy: &'a Compiled,
    /// The priority of the agent whose change lands.
    pub(crate) theirs: i32,
}

impl std::fmt::Debug for ByPriority<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByPriority").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl Precedence for ByPriority<'_> {
    async fn theirs_first(&self, path: &TreePath) -> elevo_merge::Result<Option<bool>> {
        let Project { tenant, id, .. } = self.project;
        let last = self.catalog.last_version(*tenant, id, path).await;
        let last = last.map_err(|error| elevo_merge::Error::Precedence(error.into()))?;
        let ours = last.and_then(|version| version.agent);
        let ours = self.policy.priority(ours.as_deref());
        Ok((ours != self.theirs).then_some(self.theirs > ours))
    }
}
