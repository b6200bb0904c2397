use std::io;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;

/// Holds still whoever writes into a workspace while it is read.
///
/// Without it a snapshot or a fork is of every file as it was at some moment of
/// the reading, not all of the same one.
pub trait Freeze {
    /// Returns when nobody writes any more.
    fn freeze(&self) -> io::Result<()>;
    /// Lets them go on. Called once after each [`Self::freeze`] that was tried.
    fn thaw(&self);
}

/// For workspaces that nobody writes to, or callers that accept the difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverFreeze;

impl Freeze for NeverFreeze {
    fn freeze(&self) -> io::Result<()> {
        Ok(())
    }

    fn thaw(&self) {}
}

/// Lets the writers go on when it is dropped.
pub(crate) struct Thaw<'a>(&'a dyn Freeze);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

/// Stops whoever writes into a workspace.
pub(crate) fn stop<'a>(id: &WorkspaceId, freeze: &'a dyn Freeze) -> Result<Thaw<'a>> {
    let thaw = Thaw(freeze);
    freeze.freeze().map_err(|source| Error::Freeze {
        id: id.clone(),
        source,
    })?;
    Ok(thaw)
}
