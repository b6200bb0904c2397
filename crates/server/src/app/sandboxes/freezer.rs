//! Freezes the processes of a sandbox while its files are read, so that a
//! snapshot is consistent.

use std::io;
use std::sync::Arc;

use elevo_catalog::Sandbox;
use elevo_core::SandboxState;
use elevo_sandbox::{ContainerId, SandboxRuntime};
use elevo_workspace::Freeze;

use crate::app::sandboxes::rows::container_of;

/// Freezes and thaws the container of one sandbox, for the blocking code of
/// workspaces.
pub(crate) struct Frozen {
    runtime: Arc<dyn SandboxRuntime>,
    container: Option<ContainerId>,
    handle: tokio::runtime::Handle,
}

impl Freeze for Frozen {
    fn freeze(&self) -> io::Result<()> {
        match &self.container {
            Some(container) => self
                .handle
                .block_on(self.runtime.freeze(container))
                .map_err(io::Error::other),
            None => Ok(()),
        }
    }

    fn thaw(&self) {
        if let Some(container) = &self.container
            && let Err(error) = self.handle.block_on(self.runtime.thaw(container))
        {
            let cause = crate::failure::chain(&error);
            tracing::error!(
                container = container.as_str(),
                cause,
                "cannot thaw a container; its processes stay frozen"
            );
        }
    }
}

/// Creates a [`Frozen`] for each sandbox whose files are to be read.
pub(crate) struct Freezer {
    runtime: Arc<dyn SandboxRuntime>,
}

impl Freezer {
    pub(crate) fn new(runtime: Arc<dyn SandboxRuntime>) -> Self {
        Self { runtime }
    }

    /// Freezes the container of a sandbox if the sandbox is running.
    pub(crate) fn frozen(&self, sandbox: &Sandbox) -> Frozen {
        let runs = sandbox.state == SandboxState::Running;
        Frozen {
            runtime: self.runtime.clone(),
            container: container_of(sandbox).filter(|_| runs),
            handle: tokio::runtime::Handle::current(),
        }
    }

    /// Freezes nothing, for a workspace without a sandbox.
    pub(crate) fn frozen_nothing(&self) -> Frozen {
        Frozen {
            runtime: self.runtime.clone(),
            container: None,
            handle: tokio::runtime::Handle::current(),
        }
    }
}
