//! The files of sandboxes: forks, snapshots, differences, archives.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Sandbox;
use elevo_core::ErrorCode;
use elevo_engine::{CommitInfo, ImportOptions, Loss, LossKind, PatchOptions, Progress, Repository};
use elevo_objects::{Entry, SnapshotId};
use elevo_sandbox::{ContainerId, SandboxRuntime};
use elevo_workspace::{Changes, Freeze};
use futures::executor::block_on;

use crate::app::sandboxes::{container_of, failed};
use crate::app::spec::{self, Spec};
use crate::app::starting::Source;
use crate::app::{App, Principal, keys, parts};
use crate::archive::{self, ArchiveError, Rules};
use crate::clock;
use crate::failure::{Failure, Result, short};

/// Which differences are wanted.
#[derive(Clone, Debug)]
pub(crate) struct DiffQuery {
    /// The snapshot to compare with, instead of the base.
    pub(crate) from: Option<String>,
    pub(crate) limit: usize,
}

/// A patch, and whether all of it is there.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) bytes: Vec<u8>,
}

/// Holds the processes of a sandbox still.
struct Frozen {
    runtime: Arc<dyn SandboxRuntime>,
    container: Option<ContainerId>,
    handle: tokio::runtime::Handle,
}

impl Freeze for Frozen {
    fn freeze(&self) -> io::Result<()> {
        match &self.container {
            Some(container) => self
                .handle
                .block_on(self.runtime.freeze(container))
                .map_err(io::Error::other),
            None => Ok(()),
        }
    }

    fn thaw(&self) {
        if let Some(container) = &self.container
            && let Err(error) = self.handle.block_on(self.runtime.thaw(container))
        {
            let cause = crate::failure::chain(&error);
            tracing::error!(container = container.as_str(), cause, "not thawed");
        }
    }
}

impl App {
    fn frozen(&self, sandbox: &Sandbox) -> Frozen {
        let runs = sandbox.state == elevo_core::SandboxState::Running;
        Frozen {
            runtime: self.runtime.clone(),
            container: container_of(sandbox).filter(|_| runs),
            handle: tokio::runtime::Handle::current(),
        }
    }

    /// What a new workspace is made from.
    pub(crate) async fn source(
        self: &Arc<Self>,
        who: &Principal,
        wish: Option<&api::WorkspaceSource>,
    ) -> Result<Source> {
        match wish {
            None => Ok(Source::Empty),
            Some(api::WorkspaceSource::Snapshot(id)) => {
                let id = self.snapshot_id(who, id).await?;
                Ok(Source::Snapshot(id))
            }
            Some(api::WorkspaceSource::Directory(path)) => {
                who.needs(Scope::Host)?;
                self.import_directory(who, PathBuf::from(path)).await
            }
            Some(api::WorkspaceSource::Fork(from)) => {
                let taken = self
                    .snapshot(who, from, api::TakeSnapshot::default())
                    .await?;
                let id = self.snapshot_id(who, &taken.snapshot_id).await?;
                Ok(Source::Snapshot(id))
            }
        }
    }

    /// A snapshot of this tenant.
    async fn snapshot_id(&self, who: &Principal, text: &str) -> Result<SnapshotId> {
        let missing = || {
            let message = format!("there is no snapshot `{}`", short(text));
            Failure::new(ErrorCode::SnapshotNotFound, message).about("snapshotId", short(text))
        };
        let id: SnapshotId = text.parse().map_err(|_| missing())?;
        let repository = self.homes.repository(who.tenant);
        match repository.snapshot(id).await {
            Ok(_) => Ok(id),
            Err(elevo_engine::Error::NoSuchSnapshot(_)) => Err(missing()),
            Err(error) => Err(error.into()),
        }
    }

    async fn import_directory(&self, who: &Principal, path: PathBuf) -> Result<Source> {
        if !path.is_absolute() || !path.is_dir() {
            let message = "`workspace.directory` must be a directory of the server's machine";
            return Err(Failure::invalid(message));
        }
        let repository = self.homes.repository(who.tenant);
        let info = info(who, format!("imported from {}", path.display()));
        let imported = parts::blocking(move || import(&repository, &path, info)).await?;
        Ok(Source::Snapshot(imported.0))
    }

    /// Makes a snapshot of an archive.
    pub(crate) async fn import_archive(
        &self,
        who: &Principal,
        from: impl io::Read + Send + 'static,
    ) -> Result<api::Imported> {
        who.needs(Scope::Files)?;
        let repository = self.homes.repository(who.tenant);
        let info = info(who, "imported from an archive".into());
        let scratch = self.config.data_dir.join("scratch");
        let limit = self.config.limits.max_archive;
        let imported = parts::blocking(move || {
            let made = std::fs::create_dir_all(&scratch);
            made.map_err(|error| Failure::internal(&error))?;
            let directory = tempfile::tempdir_in(&scratch);
            let directory = directory.map_err(|error| Failure::internal(&error))?;
            let rules = Rules { owner: None, limit };
            archive::unpack(directory.path(), "".as_ref(), from, rules)?;
            import(&repository, directory.path(), info)
        });
        let (id, losses) = imported.await?;
        Ok(api::Imported {
            snapshot_id: id.to_string(),
            not_kept: losses_out(&losses),
        })
    }

    /// Forks the files of a sandbox into new sandboxes.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        wish: api::Fork,
    ) -> Result<api::Forked> {
        who.needs(Scope::SandboxesWrite)?;
        let count = wish.count.unwrap_or(1);
        if !(1..=50).contains(&count) {
            return Err(Failure::invalid("`count` must be 1 to 50"));
        }
        if let Some(name) = &wish.name {
            keys::check_name(name)?;
        }
        let origin = self.visible(who, id).await?;
        let mut spec = Spec::of(&origin)?;
        if wish.timeout_seconds.is_some() {
            spec.timeout = spec::timeout(wish.timeout_seconds, &self.config.limits)?;
        }
        let mut new = Vec::new();
        for number in 1..=count {
            let name = wish.name.as_ref().map(|name| match count {
                1 => name.clone(),
                _ => format!("{name}-{number}"),
            });
            new.push(self.new_row(who, &origin.template, name, &spec)?);
        }
        let rows: Vec<_> = new.iter().map(|new| new.row.clone()).collect();
        self.catalog
            .add_sandboxes(&rows, self.add_limits(who))
            .await?;
        let app = self.clone();
        let who = who.clone();
        let forking = tokio::spawn(async move {
            if let Err(failure) = app.fork_workspace(&who, &origin, &rows).await {
                for row in &rows {
                    app.give_up(&row.id).await;
                }
                return Err(failure);
            }
            let making = new.into_iter().map(|new| {
                let (app, spec, id) = (app.clone(), spec.clone(), new.row.id.clone());
                let made = tokio::spawn(async move { app.make(new, spec, Source::Made).await });
                async move { (id, made.await) }
            });
            let mut outcome = api::Forked::default();
            for (id, made) in futures::future::join_all(making).await {
                let made = made.map_err(|error| Failure::internal(&error));
                match made.and_then(|made| spec::out(&made?)) {
                    Ok(made) => outcome.succeeded.push(made),
                    Err(failure) => outcome.failed.push(failed(id, failure)),
                }
            }
            Ok(outcome)
        });
        forking.await.map_err(|error| Failure::internal(&error))?
    }

    async fn fork_workspace(
        &self,
        who: &Principal,
        from: &Sandbox,
        into: &[Sandbox],
    ) -> Result<()> {
        let _held = self.hold(&from.id).await;
        let origin = parts::workspace_id(&from.workspace)?;
        let into = into.iter().map(|row| parts::workspace_id(&row.workspace));
        let into = into.collect::<Result<Vec<_>>>()?;
        let (frozen, info) = (self.frozen(from), info(who, format!("fork of {}", from.id)));
        let forked = self.homes.with(from.tenant, move |workspaces| {
            workspaces.fork(&origin, &into, info, &frozen, &Progress::new())?;
            Ok(())
        });
        forked.await
    }

    pub(crate) async fn snapshot(
        &self,
        who: &Principal,
        id: &str,
        wish: api::TakeSnapshot,
    ) -> Result<api::SnapshotTaken> {
        who.needs(Scope::SandboxesWrite)?;
        if wish.message.len() > 10_000 {
            return Err(Failure::invalid("`message` has more than 10000 bytes"));
        }
        let _held = self.hold(id).await;
        let sandbox = self.visible(who, id).await?;
        let workspace = parts::workspace_id(&sandbox.workspace)?;
        let (frozen, info) = (self.frozen(&sandbox), info(who, wish.message));
        let taken = self.homes.with(sandbox.tenant, move |workspaces| {
            Ok(workspaces.snapshot(&workspace, info, &frozen, &Progress::new())?)
        });
        let taken = taken.await?;
        Ok(api::SnapshotTaken {
            snapshot_id: taken.id.to_string(),
            is_new: taken.is_new,
            not_kept: losses_out(&taken.losses),
        })
    }

    pub(crate) async fn restore(
        &self,
        who: &Principal,
        id: &str,
        wish: api::Restore,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let _held = self.hold(id).await;
        let sandbox = self.visible(who, id).await?;
        let snapshot = self.snapshot_id(who, &wish.snapshot_id).await?;
        let workspace = parts::workspace_id(&sandbox.workspace)?;
        let frozen = self.frozen(&sandbox);
        let restored = self.homes.with(sandbox.tenant, move |workspaces| {
            workspaces.restore(&workspace, snapshot, &frozen, &Progress::new())?;
            Ok(())
        });
        restored.await?;
        spec::out(&sandbox)
    }

    /// Lets `read` look at what a workspace has changed.
    async fn with_changes<T: Send + 'static>(
        &self,
        who: &Principal,
        id: &str,
        query: &DiffQuery,
        contents: bool,
        read: impl FnOnce(elevo_engine::Diff, &Repository, SnapshotId) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        who.needs(Scope::SandboxesRead)?;
        let sandbox = self.visible(who, id).await?;
        let from = match &query.from {
            Some(from) => Some(self.snapshot_id(who, from).await?),
            None => None,
        };
        let workspace = parts::workspace_id(&sandbox.workspace)?;
        let repository = self.homes.repository(who.tenant);
        let looked = self.homes.with(sandbox.tenant, move |workspaces| {
            let progress = Progress::new();
            let changes: Changes = match contents {
                true => workspaces.contents(&workspace, &progress)?,
                false => workspaces.changes(&workspace, &progress)?,
            };
            let (base, before) = match from {
                Some(from) => (from, block_on(repository.snapshot(from))?.tree),
                None => (changes.base, changes.before()),
            };
            let diff = elevo_engine::Diff::new(changes.repository(), before, changes.tree);
            read(diff, changes.repository(), base)
        });
        looked.await
    }

    pub(crate) async fn diff(
        &self,
        who: &Principal,
        id: &str,
        query: DiffQuery,
    ) -> Result<api::Diff> {
        let limit = query.limit;
        self.with_changes(who, id, &query, false, move |mut diff, _, base| {
            let mut out = api::Diff {
                base: base.to_string(),
                changes: Vec::new(),
                totals: api::DiffTotals::default(),
                truncated: false,
            };
            while let Some(change) = block_on(diff.next())? {
                let change = change_out(&change);
                *match change.kind {
                    api::ChangeKind::Added => &mut out.totals.added,
                    api::ChangeKind::Removed => &mut out.totals.removed,
                    api::ChangeKind::Changed => &mut out.totals.changed,
                } += 1;
                match out.changes.len() < limit {
                    true => out.changes.push(change),
                    false => out.truncated = true,
                }
            }
            Ok(out)
        })
        .await
    }

    /// The same as a patch that `git apply` takes.
    pub(crate) async fn patch(&self, who: &Principal, id: &str, query: DiffQuery) -> Result<Patch> {
        const LARGEST: usize = 16 << 20;
        self.with_changes(who, id, &query, true, move |mut diff, repository, _| {
            let (mut bytes, options) = (Vec::new(), PatchOptions::default());
            while let Some(change) = block_on(diff.next())? {
                bytes.extend(block_on(elevo_engine::patch(
                    repository, &change, &options,
                ))?);
                if bytes.len() > LARGEST {
                    let message = "the patch has more than 16 MiB; take an archive instead";
                    return Err(Failure::new(ErrorCode::PayloadTooLarge, message));
                }
            }
            Ok(Patch { bytes })
        })
        .await
    }

    /// Writes what is at a path of a workspace as a tar.
    pub(crate) async fn archive_out<W: io::Write + Send + 'static>(
        &self,
        who: &Principal,
        id: &str,
        path: &str,
        out: W,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<W>> {
        who.needs(Scope::Files)?;
        let (root, path) = self.archive_place(who, id, path).await?;
        // Said before the answer begins, where it can still be an error.
        let (first, tried) = (root.clone(), path.clone());
        parts::blocking(move || Ok(archive::exists(&first, &tried)?)).await?;
        let pack = move || Ok(archive::pack(&root, &path, out)?);
        Ok(parts::blocking(pack))
    }

    /// Unpacks a tar at a path of a workspace.
    pub(crate) async fn archive_in(
        &self,
        who: &Principal,
        id: &str,
        path: &str,
        from: impl io::Read + Send + 'static,
    ) -> Result<u64> {
        who.needs(Scope::Files)?;
        who.needs(Scope::SandboxesWrite)?;
        let (root, path) = self.archive_place(who, id, path).await?;
        let rules = Rules {
            owner: rustix::process::geteuid()
                .is_root()
                .then_some(self.config.sandbox_user),
            limit: self.config.limits.max_archive,
        };
        parts::blocking(move || Ok(archive::unpack(&root, &path, from, rules)?)).await
    }

    async fn archive_place(
        &self,
        who: &Principal,
        id: &str,
        path: &str,
    ) -> Result<(PathBuf, PathBuf)> {
        let sandbox = self.visible(who, id).await?;
        let relative = archive::relative(path);
        let relative =
            relative.ok_or_else(|| Failure::invalid("`path` leads out of the workspace"))?;
        let workspace = parts::workspace_id(&sandbox.workspace)?;
        let root = self.homes.with(sandbox.tenant, move |workspaces| {
            Ok(workspaces.path(&workspace)?)
        });
        Ok((root.await?, relative))
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        let code = match &error {
            ArchiveError::NoSuchPath(_) | ArchiveError::NotADirectory(_) => ErrorCode::PathNotFound,
            ArchiveError::Refused { .. } | ArchiveError::Damaged(_) => ErrorCode::ArchiveRefused,
            ArchiveError::Full => ErrorCode::DiskFull,
            ArchiveError::TooLarge(_) => ErrorCode::PayloadTooLarge,
            ArchiveError::Io(_) => return Self::internal(&error),
        };
        Self::new(code, crate::failure::chain(&error))
    }
}

fn import(
    repository: &Repository,
    path: &std::path::Path,
    info: CommitInfo,
) -> Result<(SnapshotId, Vec<Loss>)> {
    let options = ImportOptions {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        leave_out: Vec::new(),
    };
    let imported = elevo_engine::import(repository, path, &options, &Progress::new())?;
    let losses = imported.losses.clone();
    let id = block_on(imported.commit(repository, info))?;
    Ok((id, losses))
}

fn info(who: &Principal, message: String) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: who.agent.clone().unwrap_or_else(|| who.key.clone()),
        message,
        created: clock::now(),
        labels: BTreeMap::new(),
        reference: None,
    }
}

fn losses_out(losses: &[Loss]) -> Vec<String> {
    let words = |loss: &Loss| {
        let what = match loss.kind {
            LossKind::Socket => "sockets, left out",
            LossKind::Pipe => "named pipes, left out",
            LossKind::Device => "devices, left out",
            LossKind::Vanished => "files that vanished meanwhile, left out",
            LossKind::HardLink => "hard links, kept as separate files",
            LossKind::SpecialBits => "setuid, setgid and sticky bits, dropped",
            LossKind::ExtendedAttributes => "extended attributes, dropped",
            _ => "others, left out",
        };
        format!("{what}: {}, such as `{}`", loss.count, loss.example)
    };
    losses.iter().map(words).collect()
}

fn change_out(change: &elevo_engine::Change) -> api::Change {
    let (before, after) = (change.kind.before(), change.kind.after());
    let path = readable(change.path.as_bytes());
    api::Change {
        kind: match (before, after) {
            (None, _) => api::ChangeKind::Added,
            (_, None) => api::ChangeKind::Removed,
            _ => api::ChangeKind::Changed,
        },
        path,
        before: before.map(|entry| kind_of(entry).into()),
        after: after.map(|entry| kind_of(entry).into()),
    }
}

fn kind_of(entry: &Entry) -> &'static str {
    match entry {
        Entry::Directory { .. } => "directory",
        Entry::Link(_) => "symlink",
        Entry::File { .. } => "file",
    }
}

/// Text as it is, other bytes as `\xNN`.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}
