//! Reads the files of snapshots.

use elevo_api::Scope;
use elevo_policy::View;

use crate::app::access::principal::Principal;
use crate::app::files::stored::StoredTree;
use crate::app::snapshots::Snapshots;
use crate::failure::Result;

impl Snapshots {
    /// Opens the files of a snapshot, by its id or name.
    pub(crate) async fn files(&self, who: &Principal, text: &str) -> Result<StoredTree> {
        who.needs_any(&[Scope::SandboxesRead, Scope::ProjectsRead])?;
        let kept = (self.snapshot_id(who, text).await?, "this snapshot");
        let (stores, tenant) = (&self.stores, who.tenant);
        Ok(StoredTree::open(stores, tenant, kept, View::everything()))
    }
}
