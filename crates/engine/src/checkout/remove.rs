//! Removes paths that the new snapshot does not have.

use elevo_core::TreePath;
use elevo_objects::Entry;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{Checkout, CheckoutReport};
use crate::diff::{Change, ChangeKind};
use crate::disk::{self, Parents};
use crate::error::{Error, Result};

/// Removes the paths that a diff has as removed. A directory is removed after
/// its content; the order of a diff allows that with a stack.
pub(super) struct Remover<'a> {
    checkout: &'a Checkout<'a>,
    parents: Parents<'a>,
    open: Vec<Doomed>,
    report: CheckoutReport,
}

struct Doomed {
    path: TreePath,
    /// Whether another entry is to take its place.
    replaced: bool,
}

impl<'a> Remover<'a> {
    pub(super) fn new(checkout: &'a Checkout<'a>) -> Self {
        Self {
            checkout,
            parents: Parents::new(checkout.root),
            open: Vec::new(),
            report: CheckoutReport::default(),
        }
    }

    pub(super) fn visit(&mut self, change: &Change) -> Result<()> {
        while let Some(doomed) = self
            .open
            .pop_if(|doomed| !change.path.starts_with(&doomed.path))
        {
            self.remove_directory(&doomed)?;
        }
        let replaced = matches!(change.kind, ChangeKind::TypeChanged { .. });
        match &change.kind {
            ChangeKind::Removed(Entry::Directory { .. })
            | ChangeKind::TypeChanged {
                before: Entry::Directory { .. },
                ..
            } => {
                self.open.push(Doomed {
                    path: change.path.clone(),
                    replaced,
                });
                Ok(())
            }
            ChangeKind::Removed(_) | ChangeKind::TypeChanged { .. } => {
                self.remove_leaf(&change.path)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> Result<CheckoutReport> {
        while let Some(doomed) = self.open.pop() {
            self.remove_directory(&doomed)?;
        }
        Ok(self.report)
    }

    fn remove_leaf(&mut self, path: &TreePath) -> Result<()> {
        if self.checkout.options.force {
            return self.remove_any_kind(path);
        }
        match unlink(&mut self.parents, path, AtFlags::empty()) {
            Ok(removed) => self.report.removed += u64::from(removed),
            Err(source) => return Err(fail(path, source)),
        }
        Ok(())
    }

    fn remove_directory(&mut self, doomed: &Doomed) -> Result<()> {
        match unlink(&mut self.parents, &doomed.path, AtFlags::REMOVEDIR) {
            Ok(removed) => {
                self.report.removed += u64::from(removed);
                Ok(())
            }
            Err(_) if self.checkout.options.force => self.remove_any_kind(&doomed.path),
            Err(error) if is_not_empty(&error) && doomed.replaced => Err(Error::InTheWay {
                first: doomed.path.clone(),
                count: 1,
            }),
            Err(error) if is_not_empty(&error) => {
                self.report.kept += 1;
                Ok(())
            }
            Err(source) => Err(fail(&doomed.path, source)),
        }
    }

    /// Removes an entry of any kind with its content; only with force.
    fn remove_any_kind(&mut self, path: &TreePath) -> Result<()> {
        self.report.removed += remove_all(self.checkout, path)?;
        Ok(())
    }
}

fn fail(path: &TreePath, source: std::io::Error) -> Error {
    Error::Io {
        action: "remove",
        path: path.clone(),
        source,
    }
}

fn is_not_empty(error: &std::io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOTEMPTY | Errno::EXIST))
}

/// Unlinks one name; `false` if it does not exist.
fn unlink(parents: &mut Parents<'_>, path: &TreePath, flags: AtFlags) -> std::io::Result<bool> {
    let unlinked = parents
        .of(path)
        .and_then(|(parent, name)| Ok(rustix::fs::unlinkat(parent, name.as_bytes(), flags)?));
    match unlinked {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(false),
        Err(error) if flags.is_empty() && disk::is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a path with its content, following no link. Uses an explicit stack,
/// since an agent controls the depth.
pub(super) fn remove_all(checkout: &Checkout<'_>, path: &TreePath) -> Result<u64> {
    let mut parents = Parents::new(checkout.root);
    let mut removed = 0;
    let mut stack = vec![path.clone()];
    while let Some(at) = stack.last().cloned() {
        let Some(stat) = parents.stat(&at).map_err(|source| fail(&at, source))? else {
            stack.pop();
            continue;
        };
        let is_directory =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
        let flags = if is_directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        match unlink(&mut parents, &at, flags) {
            Ok(gone) => {
                removed += u64::from(gone);
                stack.pop();
            }
            Err(error) if is_directory && is_not_empty(&error) => {
                let fd = checkout
                    .root
                    .open_directory(&at)
                    .map_err(|source| fail(&at, source))?;
                let listed =
                    rustix::fs::Dir::read_from(&fd).map_err(|error| fail(&at, error.into()))?;
                for entry in listed.take(REMOVE_AT_ONCE) {
                    let entry = entry.map_err(|error| fail(&at, error.into()))?;
                    if let Ok(name) = elevo_core::Name::copy_from(entry.file_name().to_bytes()) {
                        stack.push(at.join(&name)?);
                    }
                }
            }
            Err(source) => return Err(fail(&at, source)),
        }
    }
    Ok(removed)
}

/// Number of names listed before they are removed and the directory is listed
/// again.
const REMOVE_AT_ONCE: usize = 4096;
