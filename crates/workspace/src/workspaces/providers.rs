//! Creates the providers of the workspaces in a directory.

use std::collections::BTreeMap;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::sync::Arc;

#[cfg(target_os = "linux")]
use elevo_engine::Owner;
use elevo_engine::Repository;
#[cfg(target_os = "linux")]
use elevo_objects::SnapshotId;
#[cfg(target_os = "linux")]
use futures::executor::block_on;

use super::Options;
#[cfg(not(target_os = "linux"))]
use crate::error::Error;
use crate::error::Result;
use crate::provider::{FullProvider, ProviderKind, WorkspaceProvider};
#[cfg(target_os = "linux")]
use crate::provider::{NoServer, Origin, OverlayProvider};

/// Returns a provider for each kind that this system has.
pub(super) fn providers(
    root: &Path,
    repository: &Repository,
    options: &Options,
) -> Result<BTreeMap<ProviderKind, Box<dyn WorkspaceProvider>>> {
    let copy = FullProvider::copy(repository.clone(), options.threads);
    let reflink = FullProvider::reflink(repository.clone(), options.threads, root);
    #[cfg(target_os = "linux")]
    let [copy, reflink] = [copy, reflink].map(|provider| match options.hidden_mounts {
        true => provider,
        false => provider.with_view_mounts(root),
    });
    let mut providers: Vec<Box<dyn WorkspaceProvider>> = vec![Box::new(reflink), Box::new(copy)];
    providers.extend(overlays(root, repository, options)?);
    let providers = providers.into_iter();
    Ok(providers
        .map(|provider| (provider.kind(), provider))
        .collect())
}

#[cfg(target_os = "linux")]
fn overlays(
    root: &Path,
    repository: &Repository,
    options: &Options,
) -> Result<Vec<Box<dyn WorkspaceProvider>>> {
    let (threads, spare) = (options.threads, options.spare_layers);
    let overlay = || {
        let overlay = OverlayProvider::new(repository.clone(), threads, root, spare);
        match options.pool {
            Some(bytes) => overlay.with_pool(root, bytes),
            None => Ok(overlay),
        }
    };
    let server = options.lazy.clone().unwrap_or_else(|| Arc::new(NoServer));
    // Rootless overlays have no pool, since a pool needs root.
    let rootless = || OverlayProvider::new(repository.clone(), threads, root, spare).rootless();
    Ok(vec![
        Box::new(overlay()?),
        Box::new(overlay()?.lazy(root, server.clone())),
        Box::new(rootless()),
        Box::new(rootless().lazy(root, server)),
    ])
}

/// Writes a snapshot out as the layers that new overlays in `root` need.
#[cfg(target_os = "linux")]
pub fn write_out(
    root: &Path,
    repository: &Repository,
    threads: usize,
    id: SnapshotId,
    owner: Option<Owner>,
) -> Result<()> {
    let snapshot = &block_on(repository.snapshot(id))?;
    let origin = Origin {
        id,
        snapshot,
        limit: None,
        owner,
        read_only: false,
    };
    OverlayProvider::new(repository.clone(), threads, root, 0).write_out(origin)
}

#[cfg(not(target_os = "linux"))]
fn overlays(
    _: &Path,
    _: &Repository,
    options: &Options,
) -> Result<Vec<Box<dyn WorkspaceProvider>>> {
    match options.pool {
        Some(_) => Err(Error::NoOverlays),
        None => Ok(Vec::new()),
    }
}
