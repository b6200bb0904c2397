//! Files that an import leaves out because of ignore files in the directory.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, Tree};
use rustix::fs::{FileType, Mode, OFlags};

use super::names::Names;
use super::upper::directory_in;
use super::{Importer, LossKind, TreeWithTimes, WINDOW};
use crate::error::Result;
use crate::tree;

/// Decides which files are ignored, from files such as `.gitignore` in their
/// directories. An instance serves one import.
pub trait Ignore: fmt::Debug + Send + Sync {
    /// Returns the name of ignore files.
    fn file_name(&self) -> &[u8];

    /// Adds an ignore file of `directory`. The importer calls this before it
    /// calls [`ignored`](Self::ignored) for `directory` or below it.
    fn add(&self, directory: &TreePath, content: &[u8]);

    /// Returns whether each of `names` in `directory` is ignored. The flag of a
    /// name is true for a directory.
    fn ignored(&self, directory: &TreePath, names: &[(&[u8], bool)]) -> Vec<bool>;
}

/// The rules of an import, and the paths that they do not apply to.
#[derive(Clone, Debug)]
pub struct Ignoring {
    /// Decides which files are ignored.
    pub rules: Arc<dyn Ignore>,
    /// Trees whose paths are never ignored, as git never ignores tracked files:
    /// otherwise a new pattern would remove files.
    pub tracked: Vec<Tree>,
}

/// Maximum size of an ignore file. A larger one is not read.
const LARGEST: u64 = 1 << 20;

impl Importer<'_> {
    /// Removes ignored names from `names`; returns their number.
    pub(super) fn leave_out_ignored(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        names: &mut Names,
    ) -> Result<usize> {
        let Some(ignoring) = &self.options.ignoring else {
            return Ok(0);
        };
        let file = ignoring.rules.file_name();
        if names.contains(file)
            && let Some(content) = read(fd, file)
        {
            ignoring.rules.add(path, &content);
        }
        let mut ignored = Vec::with_capacity(names.len());
        for window in names.slices(WINDOW) {
            let window: Vec<_> = window
                .map(|(name, kind)| (name, kind == FileType::Directory))
                .collect();
            ignored.extend(ignoring.rules.ignored(path, &window));
        }
        if !ignored.contains(&true) {
            return Ok(0);
        }
        self.except_tracked(ignoring, path, names, &mut ignored)?;
        Ok(self.take_out(path, names, &ignored))
    }

    /// Clears the marks of names that are in one of the tracked trees.
    fn except_tracked(
        &self,
        ignoring: &Ignoring,
        path: &TreePath,
        names: &Names,
        ignored: &mut [bool],
    ) -> Result<()> {
        for tracked in &ignoring.tracked {
            let Some((tracked, _)) = self.directory_of(*tracked, path)? else {
                continue;
            };
            for (at, is_ignored) in ignored.iter_mut().enumerate().filter(|it| *it.1) {
                let found = tree::find::<DirItem>(self.repository, tracked.root, names.get(at));
                *is_ignored = self.workers.wait(found)?.is_none();
            }
        }
        Ok(())
    }

    fn directory_of(&self, tree: Tree, path: &TreePath) -> Result<Option<TreeWithTimes>> {
        path.names().try_fold(Some((tree, None)), |state, name| {
            self.workers
                .wait(directory_in(self.repository, state, &name))
        })
    }

    fn take_out(&self, path: &TreePath, names: &mut Names, ignored: &[bool]) -> usize {
        let mut count = 0;
        names.retain(|at, name| {
            if ignored[at] {
                count += 1;
                let name = Name::copy_from(name).ok();
                self.lose(LossKind::Ignored, path, name.as_ref());
            }
            !ignored[at]
        });
        count
    }
}

/// Reads an ignore file. A file that cannot be read has no effect here; if the
/// import includes the file, the import fails.
fn read(directory: BorrowedFd<'_>, name: &[u8]) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?;
    let file = File::from(fd);
    let stat = file.metadata().ok()?;
    if !stat.is_file() || stat.len() > LARGEST {
        return None;
    }
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content).ok()?;
    Some(content)
}
