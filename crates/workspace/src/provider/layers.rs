//! The layers that overlays are mounted over: a stack of directories for each
//! snapshot, shared by all workspaces.
//!
//! ```text
//! layers/ID/files/   a layer: a whole snapshot, or the changes against the layer below
//! layers/ID/about    the snapshot that the stack from here down shows, and the layer below
//! layers/ID.making   held while that layer is created
//! layers/lock        shared: a stack is created or mounted; exclusive: layers are deleted
//! ```
//!
//! A layer never changes once it has its name, and all its files have one
//! owner: another owner has separate layers. A new snapshot costs only the
//! changes against an ancestor that has a stack. When that stack has
//! [`MAX_LAYERS`] layers, the new layer has the changes against the lowest one
//! instead, since reads through many layers are slow.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use elevo_engine::{
    CheckoutOptions, ExistingContent, Guard, Owner, Progress, Repository, checkout, write_layer,
};
use elevo_objects::{Kind, Snapshot, SnapshotId};
use futures::executor::block_on;
use serde::{Deserialize, Serialize};

use super::Origin;
use super::served::ServedSnapshots;
use crate::error::{Error, Result};
use crate::lock;
use crate::trash;

/// Maximum number of layers in a new mount.
pub(super) const MAX_LAYERS: usize = 16;
/// Maximum number of ancestors of a snapshot that are searched for a stack.
const MAX_ANCESTORS: usize = 64;
/// Suffix of the lock that is held while a layer is created.
const MAKING: &str = ".making";

#[derive(Debug)]
pub(super) struct Layers {
    directory: PathBuf,
    trash: PathBuf,
    repository: Repository,
    options: CheckoutOptions,
    /// Maximum bytes of layers that are kept for later.
    budget: u64,
    /// The boot id of the kernel.
    boot: String,
}

/// The file `about` of a layer.
#[derive(Debug, Serialize, Deserialize)]
struct LayerInfo {
    snapshot: String,
    below: Option<String>,
    bytes: u64,
    /// The boot id of the kernel that wrote the layer, unless the layer is
    /// known to be on disk.
    boot: Option<String>,
}

/// A stack of layers that cannot be deleted while this is held.
pub(super) struct Stack {
    /// The layers, from the top down.
    pub(super) directories: Vec<PathBuf>,
    /// The id of the layer that is served instead of written out; the stack
    /// then has no other layer.
    pub(super) served: Option<String>,
    _lock: File,
}

impl Layers {
    pub(super) fn new(repository: Repository, threads: usize, root: &Path, budget: u64) -> Self {
        let options = CheckoutOptions {
            threads,
            leave_out: Vec::new(),
            ignoring: None,
            force: false,
            clone_source: None,
            owner: None,
        };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            directory: root.join("layers"),
            trash: root.join("trash"),
            repository,
            options,
            budget,
            boot: boot.trim().into(),
        }
    }

    /// Returns the stack that shows a snapshot, and creates it if necessary.
    pub(super) fn stack(&self, origin: Origin<'_>, progress: &Progress) -> Result<Stack> {
        self.stack_or_serve(origin, progress, None)
    }

    /// Like [`Self::stack`]. With `served`, a snapshot that would have to be
    /// written out whole is served instead.
    pub(super) fn stack_or_serve(
        &self,
        origin: Origin<'_>,
        progress: &Progress,
        served: Option<&ServedSnapshots>,
    ) -> Result<Stack> {
        let failed = || Error::io("open", &self.directory);
        let lock = self.directory.join("lock");
        // Held by the result, so that no layer is deleted before the mount.
        let lock = match lock::shared(&lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.directory).map_err(failed())?;
                lock::shared(&lock).map_err(failed())?
            }
            lock => lock.map_err(failed())?,
        };
        let top = layer_id(origin.snapshot, origin.owner);
        // The second round finds the layer that the first has created or waited
        // for.
        loop {
            if let Some(layers) = self.chain(&top) {
                let files = |layer: &String| self.directory.join(layer).join("files");
                return Ok(Stack {
                    directories: layers.iter().map(files).collect(),
                    served: None,
                    _lock: lock,
                });
            }
            // A layer of changes is usually small, so it is written. Only a
            // whole snapshot is served instead.
            if let Some(served) = served
                && self.find_lower(origin.snapshot, origin.owner)?.is_none()
            {
                return Ok(Stack {
                    directories: vec![served.serve(origin)?],
                    served: Some(top),
                    _lock: lock,
                });
            }
            // Only callers that need the same layer wait for it.
            let making = self.directory.join(format!("{top}{MAKING}"));
            let _making = lock::exclusive(&making).map_err(failed())?;
            // Another caller may have created it before the lock was acquired.
            if self.chain(&top).is_none() {
                self.create(&top, origin, progress)?;
            }
        }
    }

    /// Returns the layers from `top` down, if all exist and are complete.
    fn chain(&self, top: &str) -> Option<Vec<String>> {
        let mut layers = vec![top.to_owned()];
        let mut info = self.info(top)?;
        while let Some(below) = info.below {
            info = self.info(&below)?;
            layers.push(below);
            // No stack is created with more layers, but in damaged files the
            // layers could form a cycle.
            if layers.len() > MAX_LAYERS {
                return None;
            }
        }
        Some(layers)
    }

    fn info(&self, layer: &str) -> Option<LayerInfo> {
        let text = fs::read(self.directory.join(layer).join("about")).ok()?;
        let info: LayerInfo = serde_json::from_slice(&text).ok()?;
        // A layer that was written before the last boot, and not synced, may
        // have lost data.
        let is_complete = info.boot.as_ref().is_none_or(|boot| *boot == self.boot);
        is_complete.then_some(info)
    }

    fn create(&self, top: &str, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let failed = || Error::io("create a layer in", &self.directory);
        let Origin {
            snapshot, owner, ..
        } = origin;
        // Deletes a layer that `info` does not trust, and the remains of a
        // killed process.
        let directory = self.directory.join(top);
        trash::delete(&directory, &self.trash)?;
        let unfinished = self.directory.join(format!("{top}.unfinished"));
        trash::delete(&unfinished, &self.trash)?;
        let files = unfinished.join("files");
        fs::create_dir_all(&files).map_err(failed())?;
        let below = self.find_lower(snapshot, owner)?;
        let repository = &self.repository;
        let options = CheckoutOptions {
            owner,
            ..self.options.clone()
        };
        let report = match &below {
            Some(LowerLayer {
                snapshot: before, ..
            }) => write_layer(repository, before, snapshot, &files, &options, progress)?,
            None => {
                let present = ExistingContent::Unknown;
                checkout(repository, snapshot, &files, &present, &options, progress)?
            }
        };
        let mut info = LayerInfo {
            snapshot: origin.id.to_string(),
            below: below.map(|below| below.layer),
            bytes: report.bytes,
            boot: Some(self.boot.clone()),
        };
        if info.below.is_none() {
            // Writing a whole snapshot again after a power loss would take too
            // long, so it is synced. A layer of changes is written again.
            let files = File::open(&files).map_err(failed())?;
            rustix::fs::syncfs(files).map_err(|error| failed()(error.into()))?;
            info.boot = None;
        }
        let text = serde_json::to_vec(&info).unwrap_or_else(|_| unreachable!("plain data"));
        fs::write(unfinished.join("about"), text).map_err(failed())?;
        // The rename completes the layer: from here on it never changes.
        fs::rename(&unfinished, &directory).map_err(failed())
    }

    /// Finds the layer that the layer of `snapshot` can be placed on: that of
    /// the nearest ancestor with a stack. `None` if the whole snapshot must be
    /// written.
    fn find_lower(&self, snapshot: &Snapshot, owner: Option<Owner>) -> Result<Option<LowerLayer>> {
        let mut ancestor = snapshot.parents.first().copied();
        for _ in 0..MAX_ANCESTORS {
            let Some(id) = ancestor else { break };
            let found = match LowerLayer::at(&self.repository, id, owner) {
                // Garbage collection has deleted it, and its ancestors too.
                Err(elevo_engine::Error::NoSuchSnapshot(_)) => break,
                found => found?,
            };
            if let Some(chain) = self.chain(&found.layer) {
                if chain.len() < MAX_LAYERS {
                    return Ok(Some(found));
                }
                // The stack is full: start again on its lowest layer, which
                // holds a whole snapshot.
                return Ok(chain.last().and_then(|lowest| self.shown_by(lowest)));
            }
            ancestor = found.snapshot.parents.first().copied();
        }
        Ok(None)
    }

    /// Returns a layer with the snapshot that its stack shows.
    fn shown_by(&self, layer: &str) -> Option<LowerLayer> {
        let id = self.info(layer)?.snapshot.parse().ok()?;
        let found = LowerLayer::at(&self.repository, id, None).ok()?;
        // The id of a layer depends on the owner, which the file `about` does
        // not record. So the given id replaces the computed one.
        let layer = layer.to_owned();
        Some(LowerLayer { layer, ..found })
    }

    /// Deletes incomplete layers, and layers that no stack needs, except the
    /// newest ones within the budget. The needed stacks are those of `used` and
    /// those whose tops `others` returns. `others` is called while no stack is
    /// created or mounted.
    pub(super) fn tidy(
        &self,
        used: &[Origin<'_>],
        others: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<()> {
        let failed = || Error::io("clean up", &self.directory);
        let lock = match lock::try_exclusive(&self.directory.join("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            lock => lock.map_err(failed())?,
        };
        // If the lock is held, its holder is about to mount a stack, and a
        // later call will clean up.
        let Some(_lock) = lock else {
            return Ok(());
        };
        let tops = used
            .iter()
            .map(|origin| layer_id(origin.snapshot, origin.owner));
        let tops = tops.chain(others()?);
        let chains = tops.filter_map(|top| self.chain(&top));
        let mut needed: HashSet<String> = chains.flatten().collect();
        let mut layers = self.list().map_err(failed())?;
        // The newest first, so that the budget is spent on them. A kept layer
        // makes the layers below it needed; those are older and come later.
        layers.sort_by_key(|(created, ..)| std::cmp::Reverse(*created));
        let mut kept = 0;
        for (_, layer, bytes) in layers {
            let is_needed = needed.contains(&layer);
            let chain = self.chain(&layer);
            if !is_needed && (chain.is_none() || kept + bytes > self.budget) {
                trash::move_into(&self.directory.join(&layer), &self.trash)?;
                continue;
            }
            kept += bytes;
            needed.extend(chain.into_iter().flatten());
        }
        Ok(())
    }

    /// Lists all layers, and deletes the locks that were needed to create them.
    fn list(&self) -> io::Result<Vec<(SystemTime, String, u64)>> {
        let mut layers = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = entry.metadata()?;
            if name.ends_with(MAKING) {
                // No layer is being created while the lock is held exclusively.
                fs::remove_file(entry.path())?;
            } else if metadata.is_dir() {
                let bytes = self.info(&name).map_or(0, |info| info.bytes);
                layers.push((metadata.modified()?, name, bytes));
            }
        }
        Ok(layers)
    }
}

/// The layer directly below a new one.
struct LowerLayer {
    layer: String,
    /// The snapshot that the stack from this layer down shows.
    snapshot: Snapshot,
    /// Keeps the snapshot from garbage collection while the new layer is
    /// written.
    _guard: Guard,
}

impl LowerLayer {
    fn at(
        repository: &Repository,
        id: SnapshotId,
        owner: Option<Owner>,
    ) -> elevo_engine::Result<Self> {
        let (guard, snapshot) = block_on(repository.hold(id))?;
        Ok(Self {
            layer: layer_id(&snapshot, owner),
            snapshot,
            _guard: guard,
        })
    }
}

/// Returns the id of a layer: equal for equal files, times and owner. It is
/// short because the options of a mount list many of them.
pub(super) fn layer_id(snapshot: &Snapshot, owner: Option<Owner>) -> String {
    let [tree, times] = [snapshot.tree.root, snapshot.times];
    let bytes = [tree, times].map(|hash| hash.map_or([0; 32], |hash| *hash.as_bytes()));
    let mut bytes = bytes.concat();
    if let Some(owner) = owner {
        bytes.extend(owner.uid.to_le_bytes());
        bytes.extend(owner.gid.to_le_bytes());
    }
    let mut text = Kind::Chunk.hash(&bytes).to_string();
    text.truncate(24);
    text
}
