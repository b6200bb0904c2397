//! The records of snapshots that clients take, import or name: lists, names and
//! differences.
//!
//! A snapshot with a name is kept until the name is removed. Another one is kept
//! while a workspace needs it, and at least for `GC_KEEP_UNNAMED`; garbage
//! collection then deletes its content and its record.

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{ClientSnapshot, SnapshotQuery};
use elevo_core::{ErrorCode, WorkspaceId};
use elevo_engine::Diff;
use elevo_objects::{SnapshotId, Tree};

use crate::app::access::names::problem_of_version;
use crate::app::access::principal::Principal;
use crate::app::files::diff::{Compared, DiffOptions, LAST, START, compared};
use crate::app::pages::{self, PageQuery};
use crate::app::snapshots::{Snapshots, no_snapshot, tree_text};
use crate::failure::{Failure, Result, short};
use crate::platform::clock;

/// Words that requests use in the place of a snapshot.
const RESERVED: [&str; 3] = [START, LAST, "diff"];

/// The filters of a list of snapshots.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotFilter {
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) name_prefix: Option<String>,
}

/// A snapshot that a client has just taken or imported.
#[derive(Clone, Debug)]
pub(crate) struct TakenSnapshot {
    pub(crate) id: SnapshotId,
    pub(crate) tree: Tree,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) message: String,
    pub(crate) name: Option<String>,
}

impl Snapshots {
    /// Records a snapshot for a principal. The caller keeps its content.
    pub(crate) async fn record(
        &self,
        who: &Principal,
        taken: TakenSnapshot,
    ) -> Result<ClientSnapshot> {
        let record = ClientSnapshot {
            tenant: who.tenant,
            id: taken.id,
            tree: taken.tree.root,
            workspace: taken.workspace,
            key: who.key.clone(),
            agent: who.agent.clone(),
            message: taken.message,
            name: taken.name,
            created: clock::now(),
        };
        let recorded = self.catalog.record_snapshot(&record).await;
        recorded.map_err(|error| match (error, &record.name) {
            (elevo_catalog::Error::Exists { .. }, Some(name)) => name_taken(name),
            (error, _) => error.into(),
        })
    }

    /// Returns the record of a snapshot.
    pub(crate) async fn recorded(
        &self,
        who: &Principal,
        id: SnapshotId,
    ) -> Result<Option<ClientSnapshot>> {
        Ok(self.catalog.client_snapshot(who.tenant, id).await?)
    }

    /// Checks the name for a snapshot of a workspace before the snapshot is taken.
    /// The name may belong to an earlier snapshot of the workspace: a retry takes
    /// the same snapshot if nothing has changed.
    pub(crate) async fn check_name(
        &self,
        who: &Principal,
        name: &str,
        workspace: &WorkspaceId,
    ) -> Result<()> {
        check_form(name)?;
        let named = self.catalog.snapshot_by_name(who.tenant, name).await?;
        match named {
            Some(other) if other.workspace.as_ref() != Some(workspace) => Err(name_taken(name)),
            _ => Ok(()),
        }
    }

    pub(crate) async fn list(
        &self,
        who: &Principal,
        filter: SnapshotFilter,
        page: PageQuery,
    ) -> Result<api::SnapshotPage> {
        who.needs_any(&[Scope::SandboxesRead, Scope::ProjectsRead])?;
        let after = page.position()?.map(|after| {
            let id = after.id.parse::<SnapshotId>();
            id.map(|id| (after.created, id))
                .map_err(|_| pages::not_a_cursor())
        });
        let query = SnapshotQuery {
            tenant: who.tenant,
            agent: who.agent.clone(),
            workspace: filter.workspace,
            name_prefix: filter.name_prefix,
            after: after.transpose()?,
            limit: page.limit,
        };
        let found = self.catalog.client_snapshots(&query).await?;
        let next = pages::next(&found, page.limit, |last| elevo_catalog::Position {
            created: last.created,
            id: last.id.to_string(),
        });
        let items = found.iter().map(out).collect();
        Ok(api::SnapshotPage { items, next })
    }

    /// Returns a snapshot by its id or name. A snapshot that no client has taken
    /// or named has no record, and is described by its metadata.
    pub(crate) async fn get(&self, who: &Principal, text: &str) -> Result<api::Snapshot> {
        who.needs_any(&[Scope::SandboxesRead, Scope::ProjectsRead])?;
        let kept = self.snapshot_id(who, text).await?;
        if let Some(record) = self.catalog.client_snapshot(who.tenant, kept.id).await? {
            return Ok(out(&record));
        }
        let snapshot = &kept.snapshot;
        Ok(api::Snapshot {
            id: kept.id.to_string(),
            tree: tree_text(&snapshot.tree),
            name: None,
            workspace: None,
            agent: None,
            key: None,
            message: snapshot.message.clone(),
            created_at: clock::text(snapshot.created),
        })
    }

    /// Sets or removes the name of a snapshot.
    pub(crate) async fn rename(
        &self,
        who: &Principal,
        text: &str,
        wish: api::ChangeSnapshot,
    ) -> Result<api::Snapshot> {
        who.needs_any(&[Scope::SandboxesWrite, Scope::ProjectsWrite])?;
        // Kept until the record has the name, which keeps it from then on.
        let kept = self.snapshot_id(who, text).await?;
        let Some(name) = wish.name else {
            let unnamed = self.catalog.remove_snapshot_name(who.tenant, kept.id);
            let unnamed = unnamed.await?;
            return unnamed
                .map(|record| out(&record))
                .ok_or_else(|| no_snapshot(text));
        };
        check_form(&name)?;
        let snapshot = &kept.snapshot;
        let named = TakenSnapshot {
            id: kept.id,
            tree: snapshot.tree,
            workspace: None,
            message: snapshot.message.clone(),
            name: Some(name),
        };
        Ok(out(&self.record(who, named).await?))
    }

    /// Compares two snapshots.
    pub(crate) async fn diff(
        &self,
        who: &Principal,
        (from, to): (&str, &str),
        options: DiffOptions,
    ) -> Result<Compared> {
        who.needs_any(&[Scope::SandboxesRead, Scope::ProjectsRead])?;
        let from = self.snapshot_id(who, from).await?;
        let to = self.snapshot_id(who, to).await?;
        let repository = self.stores.repository(who.tenant);
        let (before, after) = (from.snapshot.tree, to.snapshot.tree);
        compared(Diff::new(&repository, before, after), from.id, options).await
    }
}

fn out(record: &ClientSnapshot) -> api::Snapshot {
    let tree = Tree {
        root: record.tree,
        ..Tree::EMPTY
    };
    api::Snapshot {
        id: record.id.to_string(),
        tree: tree_text(&tree),
        name: record.name.clone(),
        workspace: record.workspace.as_ref().map(ToString::to_string),
        agent: record.agent.as_ref().map(ToString::to_string),
        key: Some(record.key.to_string()),
        message: record.message.clone(),
        created_at: clock::text(record.created),
    }
}

/// Rejects a name that could also be read as a snapshot id or as another word.
fn check_form(name: &str) -> Result<()> {
    let why = match RESERVED.contains(&name) {
        true => Some("requests use this word for something else"),
        false => problem_of_version(name),
    };
    match why {
        None => Ok(()),
        Some(why) => Err(Failure::invalid(format!(
            "`{}` is not a valid name of a snapshot: {why}",
            short(name)
        ))),
    }
}

fn name_taken(name: &str) -> Failure {
    let message = format!("another snapshot has the name `{}`", short(name));
    let failure = Failure::new(ErrorCode::NameTaken, message).about("name", short(name));
    failure.remediation("Choose another name, or remove the name of the other snapshot first.")
}
