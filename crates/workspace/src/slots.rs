//! Directories for containers that are started before their workspace exists.
//!
//! ```text
//! ID/workspace, ID/home   bound into one container, empty until a workspace and
//!                         its home are mounted there
//! ```
//!
//! Mounts reach the container by propagation. They stay as long as the slot, so
//! a container that is restarted finds its workspace there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::mounts::{self, is_mount_of, mount_clone, unmount_all};
use elevo_core::WorkspaceId;

/// The slots in a directory.
#[derive(Debug)]
pub struct Slots {
    root: PathBuf,
    is_shared: OnceLock<()>,
}

/// The directories to bind into a container, with the propagation `rslave`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The directory for the files of the workspace.
    pub workspace: PathBuf,
    /// The directory for the home of the workspace.
    pub home: PathBuf,
}

impl Slot {
    fn directories(&self) -> [&Path; 2] {
        [&self.workspace, &self.home]
    }
}

impl Slots {
    /// Returns the slots in the directory `root`, which is created with the
    /// first slot.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            is_shared: OnceLock::new(),
        }
    }

    fn at(&self, id: &WorkspaceId) -> Slot {
        let directory = self.root.join(id.as_str());
        Slot {
            workspace: directory.join("workspace"),
            home: directory.join("home"),
        }
    }

    /// Creates an empty slot. Requires root.
    pub fn make(&self, id: &WorkspaceId) -> Result<Slot> {
        self.share_root()?;
        let slot = self.at(id);
        for directory in slot.directories() {
            fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
        }
        Ok(slot)
    }

    /// Returns a slot if it exists.
    pub fn get(&self, id: &WorkspaceId) -> Option<Slot> {
        let slot = self.at(id);
        slot.home.is_dir().then_some(slot)
    }

    /// Mounts a workspace and its home in a slot. The container of the slot
    /// sees them at once, and so do the processes that already run in it.
    /// Idempotent.
    pub fn fill(&self, id: &WorkspaceId, files: &Path, home: &Path) -> Result<()> {
        self.share_root()?;
        let slot = self.at(id);
        for (target, source) in slot.directories().into_iter().zip([files, home]) {
            if !is_mount_of(target, source) {
                let fill = || {
                    unmount_all(target)?;
                    mount_clone(source, target)
                };
                fill().map_err(Error::io("mount a workspace on", target))?;
            }
        }
        Ok(())
    }

    /// Unmounts the workspace and home of a slot.
    pub fn empty(&self, id: &WorkspaceId) -> Result<()> {
        for directory in self.at(id).directories() {
            unmount_all(directory).map_err(Error::io("unmount", directory))?;
        }
        Ok(())
    }

    /// Deletes a slot, if it exists. Its container must have been deleted.
    pub fn remove(&self, id: &WorkspaceId) -> Result<()> {
        self.empty(id)?;
        let slot = self.at(id);
        let remove = |path: &Path| match fs::remove_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        for directory in slot.directories() {
            remove(directory).map_err(Error::io("delete", directory))?;
        }
        let directory = self.root.join(id.as_str());
        remove(&directory).map_err(Error::io("delete", &directory))
    }

    /// Lists the slots.
    pub fn list(&self) -> Result<Vec<WorkspaceId>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io("read", &self.root))?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(Error::io("read", &self.root))?.file_name();
            ids.extend(name.to_str().and_then(|name| name.parse().ok()));
        }
        Ok(ids)
    }

    fn share_root(&self) -> Result<()> {
        if self.is_shared.get().is_none() {
            let make = || {
                fs::create_dir_all(&self.root)?;
                mounts::share(&self.root)
            };
            make().map_err(Error::io("share mounts in", &self.root))?;
            let _ = self.is_shared.set(());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_shows_its_workspace_until_it_is_emptied() {
        let name = "a_slot_shows_its_workspace_until_it_is_emptied";
        if !elevo_testkit::disk::in_own_namespace(&format!("slots::tests::{name}")) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let [files, home, other] =
            ["files", "home", "other"].map(|name| directory.path().join(name));
        for path in [&files, &home, &other] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("name"), path.to_str().unwrap()).unwrap();
        }
        let slots = Slots::new(directory.path().join("slots"));
        assert!(slots.list().unwrap().is_empty());
        let id: WorkspaceId = "sbx-1".parse().unwrap();
        assert_eq!(slots.get(&id), None);
        let slot = slots.make(&id).unwrap();
        assert_eq!(slots.get(&id), Some(slot.clone()));
        // A process that was given the slot before it is filled.
        let seen = directory.path().join("seen");
        fs::create_dir(&seen).unwrap();
        rustix::mount::mount_bind(&slot.workspace, &seen).unwrap();
        let downstream = rustix::mount::MountPropagationFlags::DOWNSTREAM;
        rustix::mount::mount_change(&seen, downstream).unwrap();
        assert!(!seen.join("name").exists());
        let name = |path: &Path| fs::read_to_string(path.join("name")).unwrap();
        for _ in 0..2 {
            slots.fill(&id, &files, &home).unwrap();
            assert_eq!(name(&seen), files.to_str().unwrap());
            assert_eq!(name(&slot.home), home.to_str().unwrap());
        }
        slots.empty(&id).unwrap();
        assert!(!seen.join("name").exists());
        slots.fill(&id, &other, &home).unwrap();
        assert_eq!(name(&seen), other.to_str().unwrap());
        // Another process sees the same slots.
        let again = Slots::new(directory.path().join("slots"));
        assert_eq!(again.list().unwrap(), std::slice::from_ref(&id));
        again.remove(&id).unwrap();
        again.remove(&id).unwrap();
        assert!(!seen.join("name").exists());
        assert!(again.list().unwrap().is_empty());
        assert!(files.join("name").exists() && home.join("name").exists());
    }
}
