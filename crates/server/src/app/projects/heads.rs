//! Notifications within this process that the head of a project has moved.

use elevo_core::ProjectId;
use tokio::sync::broadcast;

/// Broadcasts the ids of projects whose heads have moved. A slow receiver misses
/// the oldest notifications.
#[derive(Debug)]
pub(crate) struct Heads(broadcast::Sender<ProjectId>);

impl Default for Heads {
    fn default() -> Self {
        Self(broadcast::Sender::new(256))
    }
}

impl Heads {
    /// Notifies the receivers that the head of a project has moved.
    pub(crate) fn head_moved(&self, project: &ProjectId) {
        // Fails if there is no receiver, and then there is nothing to do.
        let _ = self.0.send(project.clone());
    }

    /// Subscribes to the ids of projects whose heads move.
    pub(crate) fn moving_heads(&self) -> broadcast::Receiver<ProjectId> {
        self.0.subscribe()
    }
}
