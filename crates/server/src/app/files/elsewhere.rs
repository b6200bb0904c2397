//! Files of a running sandbox outside of its workspace and its home.

use std::path::Path;

use elevo_api as api;

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::files::single::OpenFile;
use crate::app::files::target::WorkspaceRef;
use crate::app::pages::PageQuery;
use crate::failure::{Failure, Result};
use crate::platform::files::stat::Condition;

impl Files {
    pub(super) async fn open_elsewhere(
        &self,
        _who: &Principal,
        _of: &WorkspaceRef,
        path: &Path,
    ) -> Result<OpenFile> {
        Err(not_reachable(path))
    }

    pub(super) async fn list_elsewhere(
        &self,
        _who: &Principal,
        _of: &WorkspaceRef,
        path: &Path,
        _page: &PageQuery,
    ) -> Result<api::FilePage> {
        Err(not_reachable(path))
    }

    pub(super) async fn remove_elsewhere(
        &self,
        _who: &Principal,
        _of: &WorkspaceRef,
        path: &Path,
        _recursive: bool,
        _condition: Condition,
    ) -> Result<()> {
        Err(not_reachable(path))
    }

    pub(super) async fn rename_elsewhere(
        &self,
        _who: &Principal,
        _of: &WorkspaceRef,
        paths: (&Path, &Path),
        _overwrite: bool,
    ) -> Result<api::FileInfo> {
        Err(not_reachable(paths.0))
    }

    pub(super) async fn make_directory_elsewhere(
        &self,
        _who: &Principal,
        _of: &WorkspaceRef,
        path: &Path,
        _mode: Option<u32>,
        _parents: bool,
    ) -> Result<(api::FileInfo, bool)> {
        Err(not_reachable(path))
    }
}

/// Returns the failure of a request for a file that the server cannot reach.
pub(super) fn not_reachable(path: &Path) -> Failure {
    let path = crate::failure::short(&path.to_string_lossy());
    Failure::invalid(format!(
        "`{path}` is neither below /workspace nor below /home/agent"
    ))
}
