//! Changes of a project without a workspace: applies patches and complete files.
//! The submodules have imports and reverts.

pub(crate) mod git;
pub(crate) mod importing;
pub(crate) mod patch;
pub(crate) mod reverting;

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use diffy::patch_set::FileMode;
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{LandingKind, Project};
use elevo_core::TreePath;
use elevo_engine::{Attributes, Error as EngineError, StateTree};
use elevo_objects::{Entry, Mode, Tree};

use crate::app::access::principal::Principal;
use crate::app::files::diff::readable;
use crate::app::projects::Projects;
use crate::app::projects::changes::patch::{
    Edit, EditKind, checked, misfit, patched, refused, refused_at,
};
use crate::app::projects::landing::Landings;
use crate::app::projects::landing::job::Job;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::projects::trees::committed;
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::snapshots::{Kept, Snapshots, info};
use crate::app::tenant_stores::TenantStores;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// Maximum size of a file that a patch may change.
const PATCHED: u64 = 64 << 20;

/// Lands changes that do not come from a workspace: patches, files, imports and
/// reverts.
pub(crate) struct Changes {
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    stores: Arc<TenantStores>,
    landings: Arc<Landings>,
    projects: Arc<Projects>,
    snapshots: Arc<Snapshots>,
}

impl Changes {
    pub(crate) fn new(
        resources: &Resources,
        landings: &Arc<Landings>,
        projects: &Arc<Projects>,
        snapshots: &Arc<Snapshots>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            landings: landings.clone(),
            projects: projects.clone(),
            snapshots: snapshots.clone(),
            stores: resources.stores.clone(),
        }
    }

    /// Applies a patch and complete files to a version of a project, and lands
    /// the result.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        who: &Principal,
        id: &ProjectRef,
        wish: api::Apply,
        once: Once,
    ) -> Result<api::MergeResult> {
        who.needs(Scope::ProjectsWrite)?;
        let project = self.projects.find(who, id).await?;
        self.landings
            .check_override(&project, wish.merge.strategy)
            .await?;
        if let Some(done) = self.landings.landed_before(&project, &once).await? {
            return Ok(done);
        }
        let (base, tree) = self.changeable(who, &project, wish.base.as_deref()).await?;
        let patch = patch_of(&wish)?;
        if patch.is_none() && wish.files.is_empty() {
            return Err(Failure::invalid(
                "the request has neither a patch nor files; send `patch`, `patchBase64` or \
                 `files`",
            ));
        }
        if let Some(patch) = patch {
            let reading = move || patch::read(&patch);
            let edits = self.stores.blocking(who.tenant, reading).await?;
            apply_edits(&tree, &edits).await?;
        }
        for file in &wish.files {
            let path = checked(file.path.as_bytes())?;
            let put = put_file(&tree, &path, file).await;
            put?.map_err(|error| not_put(&path, error))?;
        }
        let said = info(who, format!("changes for {}", project.name));
        let job = Job {
            kind: LandingKind::Apply,
            base: Some(base),
            ..Job::new(
                who,
                &wish.merge,
                committed(&tree, said).await?,
                once.landing(),
            )
        };
        if wish.merge.dry_run {
            once.rehearsed();
        }
        self.landings
            .settle(&project, job, wish.merge.dry_run)
            .await
    }

    /// Returns a version of a project, by default the head, and an editable copy
    /// of it. Both are without the paths that are hidden from the principal, as
    /// in a workspace.
    pub(crate) async fn changeable(
        &self,
        who: &Principal,
        project: &Project,
        at: Option<&str>,
    ) -> Result<(Kept, StateTree)> {
        let base = self.projects.version(project, at).await?;
        let view = self.projects.view(who, project).await?;
        let base = self.projects.visible_part(who, &base, &view).await?;
        let repository = self.stores.repository(who.tenant);
        let tree = StateTree::open(&repository, base.id).await?;
        Ok((base, tree))
    }
}

fn patch_of(wish: &api::Apply) -> Result<Option<Bytes>> {
    match (&wish.patch, &wish.patch_base64) {
        (Some(_), Some(_)) => Err(Failure::invalid(
            "send only one of `patch` and `patchBase64`",
        )),
        (Some(text), None) => Ok(Some(Bytes::copy_from_slice(text.as_bytes()))),
        (None, Some(text)) => decoded("patchBase64", text).map(Some),
        (None, None) => Ok(None),
    }
}

fn decoded(name: &str, text: &str) -> Result<Bytes> {
    let decoded = STANDARD.decode(text);
    let decoded = decoded.map_err(|_| Failure::invalid(format!("`{name}` is not valid base64")))?;
    Ok(decoded.into())
}

/// The new state of a file or symlink that a patch creates or changes.
struct Made {
    path: TreePath,
    content: Bytes,
    kind: FileMode,
    /// The mode before the patch; `None` if the patch sets one or if there was
    /// no file.
    mode: Option<Mode>,
}

/// Applies the edits of a patch. Each edit reads the state before the whole
/// patch, so all edits are computed before the first write.
async fn apply_edits(tree: &StateTree, edits: &[Edit]) -> Result<()> {
    let (mut made, mut gone) = (Vec::new(), HashSet::new());
    for edit in edits {
        made.extend(edited(tree, edit, &mut gone).await?);
    }
    let mut targets = HashSet::new();
    for Made { path, .. } in &made {
        let is_free = gone.contains(path) || tree.entry(path).await?.is_none();
        if !is_free {
            return Err(refused_at(path, "it already exists"));
        }
        if !targets.insert(path) {
            return Err(refused_at(path, "the patch contains it twice"));
        }
    }
    // If a removed path is written again below, its parent directories must not
    // be removed.
    let kept: HashSet<_> = made.iter().map(|made| made.path.clone()).collect();
    for path in &gone {
        let removed = remove_with_empty(tree, path, kept.contains(path)).await;
        removed.map_err(|error| not_put(path, error))?;
    }
    for made in made {
        let path = made.path.clone();
        let put = write(tree, made).await;
        put.map_err(|error| not_put(&path, error))?;
    }
    Ok(())
}

/// Computes the new file of an edit; `None` if the edit deletes a file. Unless
/// the edit is a copy or creates a file, adds its old path to `gone`.
async fn edited(
    tree: &StateTree,
    edit: &Edit,
    gone: &mut HashSet<TreePath>,
) -> Result<Option<Made>> {
    let (from, to) = match &edit.kind {
        EditKind::Create(to) => (None, Some(to)),
        EditKind::Remove(from) => (Some(from), None),
        EditKind::Modify(path) => (Some(path), Some(path)),
        EditKind::Rename { from, to } | EditKind::Copy { from, to } => (Some(from), Some(to)),
    };
    let takes_away = !matches!(edit.kind, EditKind::Copy { .. });
    if let Some(from) = from.filter(|_| takes_away)
        && !gone.insert(from.clone())
    {
        return Err(refused_at(from, "the patch contains it twice"));
    }
    let (old, kind, mode) = match from {
        Some(from) => content(tree, from).await?,
        None => (Bytes::new(), FileMode::Regular, None),
    };
    let new = patched(&old, &edit.hunks).map_err(|hunk| misfit(edit.path(), hunk))?;
    match to {
        Some(to) => Ok(Some(Made {
            path: to.clone(),
            content: new.into(),
            kind: edit.mode.unwrap_or(kind),
            mode: mode.filter(|_| edit.mode.is_none()),
        })),
        None if new.is_empty() => Ok(None),
        None => Err(refused_at(
            edit.path(),
            "the file has more content than the patch removes",
        )),
    }
}

/// Returns the content, kind and mode of a file or symlink.
async fn content(tree: &StateTree, path: &TreePath) -> Result<(Bytes, FileMode, Option<Mode>)> {
    match tree.entry(path).await? {
        None => Err(refused_at(path, "it does not exist")),
        Some(Entry::Directory { .. }) => Err(refused_at(path, "it is a directory")),
        Some(Entry::File { content, .. }) if content.size() > PATCHED => Err(refused_at(
            path,
            "it has more than 64 MiB, which is too large for a patch; send it in `files`",
        )),
        Some(Entry::File { mode, .. }) => {
            Ok((tree.read(path).await?, FileMode::Regular, Some(mode)))
        }
        Some(Entry::Link(_)) => Ok((tree.read_link(path).await?, FileMode::Symlink, None)),
    }
}

async fn write(tree: &StateTree, made: Made) -> Result<(), EngineError> {
    let mode = match made.kind {
        FileMode::Symlink => return tree.symlink(&made.path, made.content).await,
        FileMode::Executable => Mode::EXECUTABLE,
        _ => Mode::FILE,
    };
    let mode = made.mode.unwrap_or(mode);
    write_file(tree, &made.path, made.content, Some(mode)).await
}

async fn write_file(
    tree: &StateTree,
    path: &TreePath,
    content: Bytes,
    mode: Option<Mode>,
) -> Result<(), EngineError> {
    let attributes = Attributes {
        mode,
        modified: None,
    };
    tree.write(path, content, attributes).await
}

/// Removes a path. A missing path is not an error.
pub(crate) async fn removed(tree: &StateTree, path: &TreePath) -> Result<(), EngineError> {
    match tree.remove(path).await {
        Err(EngineError::NotFound(_)) => Ok(()),
        other => other,
    }
}

/// Removes a file. As git does, also removes the parent directories that become
/// empty, unless `comes_back` says that the same path is written next.
async fn remove_with_empty(
    tree: &StateTree,
    path: &TreePath,
    comes_back: bool,
) -> Result<(), EngineError> {
    removed(tree, path).await?;
    let mut below = path.clone();
    while let Some((directory, _)) = below.split_last().filter(|_| !comes_back) {
        let is_empty = match directory.is_root() {
            true => false,
            false => matches!(
                tree.entry(&directory).await?,
                Some(Entry::Directory { tree, .. }) if tree == Tree::EMPTY
            ),
        };
        if !is_empty {
            break;
        }
        tree.remove(&directory).await?;
        below = directory;
    }
    Ok(())
}

/// Applies one entry of `files`. The outer error means that the request is
/// invalid, the inner error that the write has failed.
async fn put_file(
    tree: &StateTree,
    path: &TreePath,
    file: &api::ApplyFile,
) -> Result<Result<(), EngineError>> {
    let content = match (&file.content, &file.base64) {
        (Some(text), None) => Some(Bytes::copy_from_slice(text.as_bytes())),
        (None, Some(text)) => Some(decoded("base64", text)?),
        (None, None) => None,
        (Some(_), Some(_)) => return Err(one_of(path)),
    };
    let there = tree.entry(path).await?;
    let had = match &there {
        Some(Entry::File { mode, .. }) => Some(*mode),
        _ => None,
    };
    let mode = match (file.executable, had) {
        (None, had) => had,
        (Some(true), had) => Some(Mode::from_bits(had.unwrap_or(Mode::FILE).bits() | 0o111)),
        (Some(false), had) => Some(Mode::from_bits(had.unwrap_or(Mode::FILE).bits() & !0o111)),
    };
    Ok(match (content, &file.symlink, file.remove) {
        (Some(content), None, false) => write_file(tree, path, content, mode).await,
        (None, Some(target), false) => {
            let target = Bytes::copy_from_slice(target.as_bytes());
            tree.symlink(path, target).await
        }
        (None, None, true) if there.is_some() => tree.remove(path).await,
        (None, None, true) => return Err(refused_at(path, "it does not exist")),
        (None, None, false) => match (file.executable, had, mode) {
            (Some(_), Some(_), Some(mode)) => tree.set_mode(path, mode).await,
            (Some(_), ..) => return Err(refused_at(path, "`executable` needs an existing file")),
            (None, ..) => return Err(one_of(path)),
        },
        _ => return Err(one_of(path)),
    })
}

fn one_of(path: &TreePath) -> Failure {
    let path = readable(path.as_bytes());
    let message = format!("`{path}` needs one of `content`, `base64`, `symlink` and `remove`");
    Failure::invalid(message)
}

/// Converts the error of a write to a path into the failure of a patch.
pub(crate) fn not_put(path: &TreePath, error: EngineError) -> Failure {
    match error {
        EngineError::NotADirectory(_) => refused_at(path, "one of its parents is a file"),
        EngineError::NotAFile(_) => refused_at(path, "it is a directory"),
        EngineError::NotFound(_) => refused_at(path, "it does not exist"),
        error @ (EngineError::LinkTarget | EngineError::Root) => refused(error.to_string()),
        error => error.into(),
    }
}
