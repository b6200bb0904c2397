//! Connections to ports that are no longer HTTP: WebSockets, and plain TCP for
//! clients such as `elevo port forward`.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};

use crate::app::App;
use crate::app::access::principal::Principal;
use crate::app::ports::bounds::Permit;
use crate::app::stopping::Phase;
use crate::platform::metrics;

/// The protocol of an upgrade to plain TCP.
pub(super) const TCP: &str = "elevo-tcp";

/// Bytes on their way in each direction.
const BUFFER: usize = 64 << 10;

/// Joins the connection of a client with that of a program, until one of them
/// ends, the key becomes invalid, or the server stops.
pub(super) fn join(
    app: &Arc<App>,
    who: Principal,
    permit: Permit,
    client: OnUpgrade,
    program: impl Future<Output = Option<impl AsyncRead + AsyncWrite + Send + Unpin>> + Send + 'static,
) {
    let (app, work) = (app.clone(), app.stopping.work());
    tokio::spawn(async move {
        let open = metrics::port_opened();
        let copying = async {
            let (client, program) = tokio::join!(client, program);
            let (Ok(client), Some(mut program)) = (client, program) else {
                return;
            };
            let mut client = TokioIo::new(client);
            // An error means that one of the two is gone.
            let _ = copy_bidirectional_with_sizes(&mut client, &mut program, BUFFER, BUFFER).await;
        };
        tokio::select! {
            () = copying => {}
            _ = app.principals.invalid(&who) => {}
            () = app.stopping.entered(Phase::Draining) => {}
        }
        drop((open, permit, work));
    });
}
