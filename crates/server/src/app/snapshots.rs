//! Keeps snapshots from garbage collection while they are in use, and explains
//! why the content of a version is no longer available.

pub(crate) mod reading;
pub(crate) mod records;

use std::collections::BTreeMap;
use std::sync::Arc;

use elevo_catalog::Catalog;
use elevo_catalog::{Project, Retention};
use elevo_core::{ErrorCode, ProjectId, TenantId};
use elevo_engine::{CommitInfo, Error as EngineError, Guard, Loss, LossKind, Repository};
use elevo_objects::{Snapshot, SnapshotId, Tree};
use futures::executor::block_on;

use crate::app::access::principal::Principal;
use crate::app::missing::no_project;
use crate::app::resources::Resources;
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result, short};
use crate::platform::clock;

/// A snapshot that garbage collection does not delete until this value and its
/// clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) id: SnapshotId,
    pub(crate) snapshot: Arc<Snapshot>,
    _guard: Arc<Guard>,
}

impl Kept {
    /// Keeps a snapshot. Fails if it does not exist.
    pub(crate) async fn of(repository: &Repository, id: SnapshotId) -> Result<Self> {
        Ok(Self::held(id, repository.hold(id).await?))
    }

    /// Keeps a snapshot; `None` if it does not exist.
    async fn if_there(repository: &Repository, id: SnapshotId) -> Result<Option<Self>> {
        match repository.hold(id).await {
            Ok(held) => Ok(Some(Self::held(id, held))),
            Err(EngineError::NoSuchSnapshot(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn held(id: SnapshotId, (guard, snapshot): (Guard, Snapshot)) -> Self {
        Self {
            id,
            snapshot: Arc::new(snapshot),
            _guard: Arc::new(guard),
        }
    }
}

/// Returns a copy of a repository with a writer, which keeps newly written
/// objects from garbage collection until the copy and the trees over it are
/// dropped. Needed by callers that write objects in one tree and commit another
/// one. Blocks the thread.
pub(crate) fn writing(repository: &Repository) -> Result<Repository> {
    Ok(block_on(repository.writing())?)
}

/// Maximum attempts to keep a head while it moves and the old head is dropped.
const ATTEMPTS: usize = 8;

/// Finds snapshots and versions for requests, and keeps them from garbage
/// collection while they are in use.
pub(crate) struct Snapshots {
    catalog: Arc<dyn Catalog>,
    stores: Arc<TenantStores>,
}

impl Snapshots {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            stores: resources.stores.clone(),
        }
    }

    /// Keeps a snapshot that is known to exist.
    pub(crate) async fn keep(&self, tenant: TenantId, id: SnapshotId) -> Result<Kept> {
        Kept::of(&self.stores.repository(tenant), id).await
    }

    /// Parses the id of a snapshot of the tenant, and keeps the snapshot. Fails
    /// with the reason if the snapshot is a version whose content was dropped.
    pub(crate) async fn known_snapshot(&self, who: &Principal, text: &str) -> Result<Kept> {
        let id: SnapshotId = text.parse().map_err(|_| no_snapshot(text))?;
        if let Some(kept) = Kept::if_there(&self.stores.repository(who.tenant), id).await? {
            return Ok(kept);
        }
        // The reason would tell an agent that the snapshot existed, and agents
        // may use only their own snapshots.
        let dropped = match who.agent {
            None => self.catalog.dropped_from(who.tenant, id).await?,
            Some(_) => Vec::new(),
        };
        let Some(project) = dropped.first() else {
            return Err(no_snapshot(text));
        };
        match self.catalog.project(who.tenant, project).await? {
            Some(project) => Err(self.dropped(&project, id).await?),
            None => Err(no_snapshot(text)),
        }
    }

    /// Keeps a version of a project. Fails if its content was dropped. The
    /// version is kept before that check, so a drop after the check does not
    /// delete it.
    pub(crate) async fn keep_version(&self, project: &Project, id: SnapshotId) -> Result<Kept> {
        let repository = self.stores.repository(project.tenant);
        let kept = Kept::if_there(&repository, id).await?;
        let dropped = self.catalog.dropped_from(project.tenant, id).await?;
        // A dropped version may still exist, for example as a version of another
        // project, but this project no longer shows it.
        if dropped.contains(&project.id) {
            return Err(self.dropped(project, id).await?);
        }
        kept.ok_or_else(|| EngineError::NoSuchSnapshot(id).into())
    }

    /// Reads the row of a project, and keeps its head.
    pub(crate) async fn with_head(
        &self,
        tenant: TenantId,
        id: &ProjectId,
    ) -> Result<(Project, Kept)> {
        let mut last = no_project(id);
        for _ in 0..ATTEMPTS {
            let found = self.catalog.project(tenant, id).await?;
            let found = found.filter(|project| !project.removing);
            let project = found.ok_or_else(|| no_project(id))?;
            match self.keep_version(&project, project.head).await {
                Ok(kept) => return Ok((project, kept)),
                // The head may have moved after the row was read, and retention
                // dropped the old one. The next attempt reads the new head.
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Keeps the head of a project from garbage collection.
    pub(crate) async fn keep_head(&self, project: &Project) -> Result<Kept> {
        let (_, head) = self.with_head(project.tenant, &project.id).await?;
        Ok(head)
    }

    /// Returns the failure of a request for a version whose content was dropped.
    pub(crate) async fn dropped(&self, project: &Project, id: SnapshotId) -> Result<Failure> {
        let landed = self
            .catalog
            .landing_of_snapshot(project.tenant, &project.id, id)
            .await?;
        let which = match &landed {
            Some(entry) => format!("version {}", entry.sequence),
            None => "the first version".into(),
        };
        let when = landed.as_ref().and_then(|entry| entry.dropped);
        let when = when.map_or(String::new(), |at| format!(" at {}", clock::text(at)));
        let (name, keeps) = (&project.name, words(project.retention));
        let message = format!("the content of {which} of `{name}` was dropped{when}");
        let remediation = format!(
            "Choose a version that `elevo project log` shows as kept. The project keeps {keeps} \
             (`elevo project retention`); a tag keeps a version for good (`elevo project tag`)."
        );
        let mut failure = Failure::new(ErrorCode::VersionDropped, message)
            .about("project", &*project.id)
            .about("snapshot", id.to_string())
            .remediation(remediation);
        if let Some(entry) = landed {
            failure = failure.about("step", entry.sequence);
        }
        Ok(failure)
    }

    /// Returns a snapshot whose files the principal may read, by its id or name.
    /// An agent may use only snapshots that it created, and snapshots that it
    /// took, whose files its own workspace had. Other snapshots may contain paths
    /// that a policy hides from the agent.
    pub(crate) async fn snapshot_id(&self, who: &Principal, text: &str) -> Result<Kept> {
        let named = match text.parse::<SnapshotId>() {
            Ok(_) => None,
            Err(_) => self.catalog.snapshot_by_name(who.tenant, text).await?,
        };
        let kept = match named {
            Some(record) => self.keep(who.tenant, record.id).await?,
            None => self.known_snapshot(who, text).await?,
        };
        let Some(agent) = &who.agent else {
            return Ok(kept);
        };
        let snapshot = &kept.snapshot;
        let is_shared = snapshot.labels.contains_key(SHARED);
        if *agent == *snapshot.author && !is_shared {
            return Ok(kept);
        }
        let record = self.catalog.client_snapshot(who.tenant, kept.id).await?;
        match record.is_some_and(|record| record.agent.as_ref() == Some(agent)) {
            true => Ok(kept),
            false => Err(no_snapshot(text)),
        }
    }
}

/// Returns the versions that a retention keeps, as words for a message.
fn words(retention: Retention) -> String {
    match retention {
        Retention::All => "all new versions".into(),
        Retention::Last(count) => format!("the last {count} versions"),
        Retention::Daily(days) => format!("the last version of each of {days} days"),
        Retention::Named => "only versions that are in use, for example by a tag".into(),
    }
}

pub(crate) fn no_snapshot(text: &str) -> Failure {
    let message = format!("there is no snapshot `{}`", short(text));
    Failure::new(ErrorCode::SnapshotNotFound, message).about("snapshot", short(text))
}

/// The label of snapshots that belong to a project. An agent may not read the
/// files of such a snapshot by its id, even if the agent is its author.
pub(crate) const SHARED: &str = "project";

/// The label of snapshots that the server creates for its own use. No response
/// contains their ids, so files in such a snapshot do not count as saved.
pub(crate) const OWN: &str = "own";

pub(crate) fn own_label() -> (String, String) {
    (OWN.to_owned(), String::new())
}

/// Returns the metadata of a snapshot that the server creates for its own use.
pub(crate) fn own_info(who: &Principal, message: String) -> CommitInfo {
    CommitInfo {
        labels: BTreeMap::from([own_label()]),
        ..info(who, message)
    }
}

/// Returns the metadata of a snapshot that a principal creates.
pub(crate) fn info(who: &Principal, message: String) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: who.agent.as_deref().unwrap_or(&who.key).to_owned(),
        message,
        created: clock::now(),
        labels: BTreeMap::new(),
        reference: None,
    }
}

/// Returns the hash of a tree as text; zeros for an empty tree, which has no node.
pub(crate) fn tree_text(tree: &Tree) -> String {
    tree.root
        .map_or_else(|| "0".repeat(64), |root| root.to_string())
}

/// Describes the files and attributes that a snapshot could not keep.
pub(crate) fn losses_out(losses: &[Loss]) -> Vec<String> {
    let words = |loss: &Loss| {
        let what = match loss.kind {
            LossKind::Socket => "sockets, left out",
            LossKind::Pipe => "named pipes, left out",
            LossKind::Device => "devices, left out",
            LossKind::Vanished => "files that vanished while they were read, left out",
            LossKind::HardLink => "hard links, kept as separate files",
            LossKind::SpecialBits => "setuid, setgid and sticky bits, dropped",
            LossKind::ExtendedAttributes => "extended attributes, dropped",
            LossKind::Ignored => "paths that are `.git` or that `.gitignore` names, left out",
            _ => "others, left out",
        };
        format!("{what}: {}, such as `{}`", loss.count, loss.example)
    };
    losses.iter().map(words).collect()
}
