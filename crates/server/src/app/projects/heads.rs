//! Who wants to know that a head has moved, on this server.

use tokio::sync::broadcast;

use crate::app::App;

/// Tells which projects have another head now. Nobody may rely on hearing of
/// each.
#[derive(Debug)]
pub(crate) struct Heads(broadcast::Sender<String>);

impl Default for Heads {
    fn default() -> Self {
        Self(broadcast::Sender::new(256))
    }
}

impl App {
    pub(super) fn head_moved(&self, project: &str) {
        // Nobody may be listening.
        let _ = self.heads.0.send(project.to_owned());
    }

    /// Projects, by id, as their heads move.
    pub(crate) fn moving_heads(&self) -> broadcast::Receiver<String> {
        self.heads.0.subscribe()
    }
}
