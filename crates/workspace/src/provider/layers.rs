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
//! [`DEEPEST`] layers, the new layer has the changes against the lowest one
//! instead, since reads through many layers are slow.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use elevo_engine::{
    CheckoutOptions, Guard, Owner, Present, Progress, Repository, checkout, write_layer,
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
pub(super) const DEEPEST: usize = 16;
/// Maximum number of ancestors that are searched for a stack.
const ANCESTORS: usize = 64;
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

/// The `about` file of a layer.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    snapshot: String,
    below: Option<String>,
    bytes: u64,
    /// The boot id of the kernel that wrote the layer, unless it is known to be
    /// on disk.
    boot: Option<String>,
}

/// A stack of layers that cannot be deleted while this is held.
pub(super) struct Stack {
    /// The layers, from the top down.
    pub(super) directories: Vec<PathBuf>,
    /// The layer that is served instead of written out, if the stack is only
    /// that.
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
            seed: None,
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
        self.stack_or(origin, progress, None)
    }

    /// Like [`Self::stack`], but serves the snapshot from `served`, if there
    /// are any, where the whole snapshot would have to be written.
    pub(super) fn stack_or(
        &self,
        origin: Origin<'_>,
        progress: &Progress,
        served: Option<&ServedSnapshots>,
    ) -> Result<Stack> {
        let failed = || Error::io("open", &self.directory);
        let lock = self.directory.join("lock");
        let lock = match lock::shared(&lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.directory).map_err(failed())?;
                lock::shared(&lock).map_err(failed())?
            }
            lock => lock.map_err(failed())?,
        };
        let top = layer_id(origin.snapshot, origin.owner);
        loop {
            if let Some(layers) = self.chain(&top) {
                let files = |layer: &String| self.directory.join(layer).join("files");
                return Ok(Stack {
                    directories: layers.iter().map(files).collect(),
                    served: None,
                    _lock: lock,
                });
            }
            if let Some(served) = served
                && self.lowest_change(origin.snapshot, origin.owner)?.is_none()
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
            if self.chain(&top).is_none() {
                self.make(&top, origin, progress)?;
            }
        }
    }

    /// Returns the layers from `top` down, if all exist and are complete.
    fn chain(&self, top: &str) -> Option<Vec<String>> {
        let mut layers = vec![top.to_owned()];
        let mut about = self.about(top)?;
        while let Some(below) = about.below {
            about = self.about(&below)?;
            layers.push(below);
            if layers.len() > DEEPEST {
                return None;
            }
        }
        Some(layers)
    }

    fn about(&self, layer: &str) -> Option<About> {
        let text = fs::read(self.directory.join(layer).join("about")).ok()?;
        let about: About = serde_json::from_slice(&text).ok()?;
        let is_whole = about.boot.as_ref().is_none_or(|boot| *boot == self.boot);
        is_whole.then_some(about)
    }

    fn make(&self, top: &str, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let failed = || Error::io("create a layer in", &self.directory);
        let Origin {
            snapshot, owner, ..
        } = origin;
        // An incomplete layer, or the remains of a killed process.
        let directory = self.directory.join(top);
        trash::delete(&directory, &self.trash)?;
        let unfinished = self.directory.join(format!("{top}.unfinished"));
        trash::delete(&unfinished, &self.trash)?;
        let files = unfinished.join("files");
        fs::create_dir_all(&files).map_err(failed())?;
        let below = self.lowest_change(snapshot, owner)?;
        let repository = &self.repository;
        let options = CheckoutOptions {
            owner,
            ..self.options.clone()
        };
        let report = match &below {
            Some(Below {
                snapshot: before, ..
            }) => write_layer(repository, before, snapshot, &files, &options, progress)?,
            None => {
                let present = Present::Unknown;
                checkout(repository, snapshot, &files, &present, &options, progress)?
            }
        };
        let mut about = About {
            snapshot: origin.id.to_string(),
            below: below.map(|below| below.layer),
            bytes: report.bytes,
            boot: Some(self.boot.clone()),
        };
        if about.below.is_none() {
            // A whole snapshot is too expensive to write again after a power
            // loss.
            let directory = File::open(&files).map_err(failed())?;
            rustix::fs::syncfs(directory).map_err(|error| failed()(error.into()))?;
            about.boot = None;
        }
        let text = serde_json::to_vec(&about).unwrap_or_else(|_| unreachable!("plain data"));
        fs::write(unfinished.join("about"), text).map_err(failed())?;
        fs::rename(&unfinished, &directory).map_err(failed())
    }

    /// Finds the layer that a new one goes onto, and the snapshot that it
    /// shows.
    fn lowest_change(&self, snapshot: &Snapshot, owner: Option<Owner>) -> Result<Option<Below>> {
        let mut ancestor = snapshot.parents.first().copied();
        for _ in 0..ANCESTORS {
            let Some(id) = ancestor else { break };
            let found = match Below::at(&self.repository, id, owner) {
                // It was collected, and its ancestors too.
                Err(elevo_engine::Error::NoSuchSnapshot(_)) => break,
                found => found?,
            };
            if let Some(chain) = self.chain(&found.layer) {
                if chain.len() < DEEPEST {
                    return Ok(Some(found));
                }
                return Ok(chain.last().and_then(|lowest| self.shown_by(lowest)));
            }
            ancestor = found.snapshot.parents.first().copied();
        }
        Ok(None)
    }

    fn shown_by(&self, layer: &str) -> Option<Below> {
        let id = self.about(layer)?.snapshot.parse().ok()?;
        let below = Below::at(&self.repository, id, None).ok()?;
        let layer = layer.to_owned();
        Some(Below { layer, ..below })
    }

    /// Deletes layers that no stack of `used` needs, the oldest first, until
    /// the rest is within the budget, and layers that are incomplete. Calls
    /// `others` while no stack is created or mounted; it returns the tops of
    /// further stacks that are needed.
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
        // The holder is about to mount a stack; a later call will clean up.
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
        layers.sort_by_key(|(made, ..)| std::cmp::Reverse(*made));
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
                let bytes = self.about(&name).map_or(0, |about| about.bytes);
                layers.push((metadata.modified()?, name, bytes));
            }
        }
        Ok(layers)
    }
}

/// The layer that a new one goes onto.
struct Below {
    layer: String,
    /// The snapshot that the layer shows.
    snapshot: Snapshot,
    _held: Guard,
}

impl Below {
    fn at(
        repository: &Repository,
        id: SnapshotId,
        owner: Option<Owner>,
    ) -> elevo_engine::Result<Self> {
        let held = block_on(repository.hold(id))?;
        let snapshot = block_on(repository.snapshot(id))?;
        Ok(Self {
            layer: layer_id(&snapshot, owner),
            snapshot,
            _held: held,
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
