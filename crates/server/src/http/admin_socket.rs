//! The admin socket: requests from the server's own user on the same machine.
//!
//! It is HTTP over `DATA_DIR/run/admin/admin.sock`. The directory has mode
//! 0700, so file permissions control the access, and no key is needed. Requests
//! name paths of this machine, which a request over the network must not do.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use crate::app::App;
use crate::app::stopping::Phase;
use crate::http::{self};

/// Returns the admin socket of the server with this data directory.
pub fn admin_socket(data: &Path) -> PathBuf {
    data.join("run/admin/admin.sock")
}

/// Serves the admin socket until the server stops.
pub(crate) fn listen(
    app: &Arc<App>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let socket = admin_socket(&app.config.data_dir);
    let listener = bind(&socket);
    let listener = listener.with_context(|| format!("cannot listen on {}", socket.display()))?;
    let shared = http::shared(app.clone());
    let stopping = app.clone();
    tasks.spawn(async move {
        let stop = async move { stopping.stopping.entered(Phase::Draining).await };
        let served = axum::serve(listener, http::admin_router(shared));
        let served = served.with_graceful_shutdown(stop).await;
        served.context("cannot listen on the admin socket any more")
    });
    Ok(())
}

fn bind(socket: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = socket.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    }
    // This server holds the store, so the socket is left from a killed server.
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(socket)
}
