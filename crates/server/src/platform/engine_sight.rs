//! Finds out whether the container engine sees the files and the mounts of this
//! server. A server in a container may have a data directory that is not at the
//! same path on the host, or mounts that do not propagate to the host.

use std::path::{Path, PathBuf};

use elevo_core::ErrorCode;
use elevo_sandbox::SandboxRuntime;
use elevo_workspace::{ProbeMount, ProviderKind, probe};

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// The remedy, in the terms of `deploy/compose.yaml`.
const REMEDY: &str = "a server in a container needs the directory of the host at the same path, \
                      with the propagation `rshared` (see deploy/compose.yaml)";

/// The part of the server's directories that the container engine sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineSight {
    /// Files and mounts; also if the engine does not respond, or does not tell.
    Everything,
    /// Files, but not the mounts that the server makes in this directory.
    Files(PathBuf),
    /// Not even the files in this directory.
    Nothing(PathBuf),
}

impl EngineSight {
    /// Asks the engine for a directory and a mount that exist only meanwhile.
    pub(crate) async fn look(runtime: &dyn SandboxRuntime, config: &Config) -> Self {
        let root = &config.workspace_root;
        for directory in [&config.data_dir, root] {
            let probe = tempfile::Builder::new()
                .prefix(".sight-")
                .tempdir_in(directory);
            let Ok(probe) = probe else {
                continue;
            };
            match runtime.sees(probe.path()).await {
                Ok(Some(false)) => return Self::Nothing(directory.clone()),
                // An engine that does not respond is not asked again.
                Err(_) => return Self::Everything,
                Ok(_) => {}
            }
        }
        // A server that may not mount makes no mounts that could be hidden.
        let Ok(mount) = ProbeMount::create(&unique_path(root)) else {
            return Self::Everything;
        };
        match runtime.sees(&mount.inside()).await {
            Ok(Some(false)) => Self::Files(root.clone()),
            _ => Self::Everything,
        }
    }

    /// Logs an obstacle, and changes the settings so that sandboxes work in
    /// spite of it.
    pub(crate) fn adapt(&self, config: &mut Config) {
        match self {
            Self::Everything => return,
            Self::Files(root) => config.provider = Some(without_mounts(root).to_string()),
            Self::Nothing(_) => {}
        }
        // A warm pool mounts workspaces into running containers.
        config.warm.clear();
        tracing::warn!("{}", self.describe());
    }

    /// Describes what the engine sees, with the consequence and the remedy.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Everything => "the container engine sees the server's mounts".into(),
            Self::Files(directory) => format!(
                "the container engine does not see the server's mounts in {}, so workspaces are \
                 copies and warm pools are off; {REMEDY}",
                directory.display()
            ),
            Self::Nothing(directory) => format!(
                "the container engine does not see the server's directory {}, so there are no \
                 sandboxes; {REMEDY}",
                directory.display()
            ),
        }
    }

    /// Fails if the engine does not see the files of workspaces of this
    /// provider. A container would get an empty directory.
    pub(crate) fn check(&self, provider: ProviderKind) -> Result<()> {
        let is_mount = !matches!(provider, ProviderKind::Reflink | ProviderKind::Copy);
        let message = match self {
            Self::Everything => return Ok(()),
            Self::Files(_) if !is_mount => return Ok(()),
            Self::Files(_) => format!(
                "the container engine does not see the files of this workspace, which is a mount \
                 of an earlier start; {REMEDY}"
            ),
            Self::Nothing(_) => self.describe(),
        };
        Err(Failure::new(ErrorCode::SandboxStartFailed, message))
    }
}

/// A path in a directory that exists nowhere else.
fn unique_path(directory: &Path) -> PathBuf {
    directory.join(clock::name(".sight-"))
}

/// The cheapest provider in a directory that makes no mounts.
fn without_mounts(directory: &Path) -> ProviderKind {
    let found = probe(directory).unwrap_or_default();
    let clones = found
        .iter()
        .any(|it| it.provider == ProviderKind::Reflink && it.obstacle.is_none());
    match clones {
        true => ProviderKind::Reflink,
        false => ProviderKind::Copy,
    }
}
