//! The connected clients of terminals that have a name. A client has one
//! connection to a terminal: a new one replaces the earlier one, which may be
//! broken without the server knowing it.

use std::collections::HashMap;
use std::sync::Arc;

use elevo_core::SandboxId;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Sandbox and terminal.
type Place = (SandboxId, String);

/// The connections of clients with a name, by place and name.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<HashMap<(Place, String), Arc<CancellationToken>>>);

/// A connection of a client, which counts until dropped.
pub(super) struct Client {
    /// The clients, and the key of this one; `None` without a name.
    entry: Option<(Arc<Clients>, (Place, String))>,
    replaced: Arc<CancellationToken>,
}

impl Clients {
    /// Adds a connection. An earlier connection of the same client is notified.
    pub(super) fn connect(clients: &Arc<Self>, place: &Place, name: &str) -> Client {
        let replaced = Arc::new(CancellationToken::new());
        let entry = (!name.is_empty()).then(|| {
            let key = (place.clone(), name.to_owned());
            let earlier = clients.0.lock().insert(key.clone(), replaced.clone());
            if let Some(earlier) = earlier {
                earlier.cancel();
            }
            (clients.clone(), key)
        });
        Client { entry, replaced }
    }
}

impl Client {
    /// Waits until the same client has opened another connection.
    pub(super) async fn replaced(&self) {
        self.replaced.cancelled().await;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some((clients, key)) = &self.entry {
            let mut clients = clients.0.lock();
            // The entry may belong to a later connection.
            let is_own = |token: &Arc<CancellationToken>| Arc::ptr_eq(token, &self.replaced);
            if clients.get(key).is_some_and(is_own) {
                clients.remove(key);
            }
        }
    }
}
