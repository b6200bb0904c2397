//! Notifications, within this server, that a head has moved.

use tokio::sync::broadcast;

/// Broadcasts the ids of projects whose head has moved. A slow receiver may
/// miss some.
#[derive(Debug)]
pub(crate) struct Heads(broadcast::Sender<String>);

impl Default for Heads {
    fn default() -> Self {
        Self(broadcast::Sender::new(256))
    }
}

impl Heads {
    /// Notifies the receivers that the head of a project has moved.
    pub(crate) fn head_moved(&self, project: &str) {
        // Sending fails without a receiver, which is fine.
        let _ = self.0.send(project.to_owned());
    }

    /// Subscribes to the ids of projects whose heads move.
    pub(crate) fn moving_heads(&self) -> broadcast::Receiver<String> {
        self.0.subscribe()
    }
}
