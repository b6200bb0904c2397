use std::io;

use crate::error::{Error, Result};
use elevo_core::WorkspaceId;

/// Pauses the writers in a workspace while it is read.
///
/// Without a pause, a snapshot or a fork has each file as it was at some moment
/// of the read, not all at the same moment.
pub trait Freeze {
    /// Pauses all writers. Returns when they have paused.
    fn freeze(&self) -> io::Result<()>;
    /// Resumes the writers. Called once after each call of [`Self::freeze`], even
    /// if that failed.
    fn thaw(&self);
}

/// Pauses no writer: for workspaces without writers, and for callers that accept
/// files of different moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverFreeze;

impl Freeze for NeverFreeze {
    fn freeze(&self) -> io::Result<()> {
        Ok(())
    }

    fn thaw(&self) {}
}

/// Resumes the writers when dropped.
pub(crate) struct Thaw<'a>(&'a dyn Freeze);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

/// Pauses the writers in a workspace until the result is dropped.
pub(crate) fn pause<'a>(id: &WorkspaceId, freeze: &'a dyn Freeze) -> Result<Thaw<'a>> {
    let thaw = Thaw(freeze);
    freeze.freeze().map_err(|source| Error::Freeze {
        id: id.clone(),
        source,
    })?;
    Ok(thaw)
}
