//! A sandbox that has no row yet.

use elevo_catalog::Sandbox;
use elevo_catalog::secret::SandboxToken;

use crate::app::sandboxes::makers::Making;
use crate::app::sandboxes::pool::Taken;

/// A row that is not added yet, and the token of its agent.
pub(crate) struct NewSandbox {
    pub(crate) row: Sandbox,
    pub(crate) token: SandboxToken,
    /// The warm container that the sandbox takes over, if any.
    pub(crate) warm: Option<Taken>,
    pub(super) _making: Making,
}

impl NewSandbox {
    /// Removes the warm container from its pool: it has a row now, or must not
    /// be given to another sandbox.
    pub(super) fn use_up(&mut self) {
        if let Some(warm) = &mut self.warm {
            warm.used();
        }
    }
}
