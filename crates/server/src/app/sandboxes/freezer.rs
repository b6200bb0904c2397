//! Freezes the processes of sandboxes while their files are read.

use std::io;
use std::sync::Arc;

use elevo_catalog::Sandbox;
use elevo_core::SandboxState;
use elevo_sandbox::{ContainerId, SandboxRuntime};
use elevo_workspace::Freeze;

use crate::app::sandboxes::rows::container_of;

/// Freezes the processes of a sandbox.
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
                "cannot thaw a container"
            );
        }
    }
}

/// Freezes the processes of sandboxes while their files are read.
pub(crate) struct Freezer {
    runtime: Arc<dyn SandboxRuntime>,
}

impl Freezer {
    pub(crate) fn new(runtime: Arc<dyn SandboxRuntime>) -> Self {
        Self { runtime }
    }

    pub(crate) fn frozen(&self, sandbox: &Sandbox) -> Frozen {
        let runs = sandbox.state == SandboxState::Running;
        Frozen {
            runtime: self.runtime.clone(),
            container: container_of(sandbox).filter(|_| runs),
            handle: tokio::runtime::Handle::current(),
        }
    }

    /// For a workspace in which the server runs nothing.
    pub(crate) fn frozen_nothing(&self) -> Frozen {
        Frozen {
            runtime: self.runtime.clone(),
            container: None,
            handle: tokio::runtime::Handle::current(),
        }
    }
}
