//! Read-only workspaces as mounts of overlays that all readers share.

use std::io;
use std::path::{Path, PathBuf};

use elevo_engine::Progress;

use super::{OverlayProvider, id, view_of};
use crate::error::{Error, Result};
use crate::provider::{Origin, Views};

impl Views for OverlayProvider {
    fn path(&self, live_dir: &Path) -> PathBuf {
        self.view_mounts.path(id(live_dir))
    }

    fn prepare(&self, _: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        // Lazy providers write out the snapshot too: they serve only the lower
        // directories of writable workspaces.
        let stack = self.layers.stack(origin, progress)?;
        self.views.mount(&view_of(origin), &stack, origin.owner)
    }

    fn show(&self, live_dir: &Path, origin: Origin<'_>) -> Result<()> {
        let view = view_of(origin);
        if !self.views.is_mounted(&view) {
            let gone = io::ErrorKind::NotFound.into();
            return Err(Error::io("find", &self.views.path(&view))(gone));
        }
        self.view_mounts.show(id(live_dir), &self.views.path(&view))
    }

    fn shows(&self, live_dir: &Path, origin: Origin<'_>) -> bool {
        let view = view_of(origin);
        let path = self.views.path(&view);
        self.views.is_mounted(&view) && self.view_mounts.is_showing(id(live_dir), &path)
    }

    fn ensure_shown(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        self.prepare(live_dir, origin, progress)?;
        let view = self.views.path(&view_of(origin));
        self.view_mounts.unmount_surplus(id(live_dir), &view)?;
        match self.view_mounts.is_showing(id(live_dir), &view) {
            true => Ok(()),
            false => self.show(live_dir, origin),
        }
    }

    fn bare(&self, live_dir: &Path) -> Result<Option<PathBuf>> {
        self.view_mounts.bare(id(live_dir)).map(Some)
    }
}
