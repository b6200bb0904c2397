//! Connections to ports after an upgrade from HTTP: WebSockets, and plain TCP for
//! clients such as `elevo port forward`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::app::stopping::Phase;
use crate::http::ports::body::{Progress, Running};
use crate::http::ports::credentials::Admitted;
use crate::platform::metrics;

/// The protocol of an upgrade to plain TCP.
pub(super) const TCP: &str = "elevo-tcp";

/// Bytes on their way in each direction.
const BUFFER: usize = 64 << 10;

/// Maximum time without bytes after one direction has ended.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum time for a client that is still sending to read the last bytes.
const LEAVING: Duration = Duration::from_secs(2);

/// Joins the connection of a client with that of a program, until one of them
/// ends, the key becomes invalid, the link expires, or the server stops.
pub(super) fn join(
    app: &Arc<App>,
    admitted: Admitted,
    running: Running,
    client: OnUpgrade,
    program: impl Future<Output = Option<impl AsyncRead + AsyncWrite + Send + Unpin>> + Send + 'static,
) {
    let app = app.clone();
    tokio::spawn(async move {
        let open = metrics::port_opened();
        let copying = async {
            let (client, program) = tokio::join!(client, program);
            if let (Ok(client), Some(program)) = (client, program) {
                copy_both(TokioIo::new(client), program).await;
            }
        };
        tokio::select! {
            () = copying => {}
            _ = app.principals.invalid(&admitted.who) => {}
            () = admitted.expired() => {}
            () = app.stopping.entered(Phase::Draining) => {}
        }
        drop((open, running));
    });
}

/// Copies bytes in both directions until both have ended, or one of them fails.
/// After the end of one direction, the other ends if it is silent.
async fn copy_both(client: impl AsyncRead + AsyncWrite, program: impl AsyncRead + AsyncWrite) {
    let (mut client, mut to_client) = tokio::io::split(client);
    let (mut program, mut to_program) = tokio::io::split(program);
    let (progress, ended) = (Progress::new(), CancellationToken::new());
    let copying = async {
        tokio::try_join!(
            copy(&mut client, &mut to_program, &progress, &ended),
            copy(&mut program, &mut to_client, &progress, &ended),
        )
    };
    let silent = async {
        ended.cancelled().await;
        progress.stalled(SILENCE).await;
    };
    tokio::select! {
        // An error means that one of the two is gone.
        _ = copying => {}
        () = silent => {}
    }
    drop((program, to_program));
    let _ = tokio::time::timeout(LEAVING, leave(&mut client, &mut to_client)).await;
}

/// Copies bytes until the sender ends, and then ends the receiver's side.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    progress: &Progress,
    ended: &CancellationToken,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            progress.advance();
            ended.cancel();
            return to.shutdown().await;
        }
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let written = to.write(rest).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            progress.advance();
            rest = &rest[written..];
        }
        to.flush().await?;
    }
}

/// Ends the connection of a client, and reads the bytes that it still sends: a
/// close with unread bytes would lose the last bytes for the client.
async fn leave(
    client: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
) -> io::Result<u64> {
    to_client.shutdown().await?;
    tokio::io::copy(client, &mut tokio::io::sink()).await
}
