//! A sandbox that is about to be created.

use elevo_catalog::Sandbox;
use elevo_catalog::secret::SandboxToken;

use crate::app::sandboxes::makers::Making;
use crate::app::sandboxes::pool::Taken;

/// The row of a new sandbox, the token of its agent, and the warm container that
/// it may use.
pub(crate) struct NewSandbox {
    pub(crate) row: Sandbox,
    pub(crate) token: SandboxToken,
    /// The warm container of the sandbox, if a warm pool had one.
    pub(crate) warm: Option<Taken>,
    pub(super) _making: Making,
}

impl NewSandbox {
    /// Removes the warm container from its pool for good. The sandbox has, or may
    /// have, a row now, so no other sandbox may get the container.
    pub(super) fn use_up(&mut self) {
        if let Some(warm) = &mut self.warm {
            warm.used();
        }
    }
}
