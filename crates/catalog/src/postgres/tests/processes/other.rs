//! A catalog of another process, which serves it at a socket: one connection for
//! each call. A message is its length and its bytes.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::calls::answer;
use super::wire::{Wire, to_bytes};
use crate::catalog::Catalog;
use crate::error::Result;
use crate::postgres::PostgresCatalog;
use crate::postgres::tests::Temporary;

const OPEN: &str = "open";
const CLOSE: &str = "close";

async fn send(stream: &mut UnixStream, message: &[u8]) -> io::Result<()> {
    stream.write_u64(message.len() as u64).await?;
    stream.write_all(message).await
}

async fn receive(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u64().await?;
    let mut message = vec![0; length as usize];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// A catalog of the process that listens at a socket.
#[derive(Debug)]
pub(super) struct Other {
    socket: PathBuf,
    /// Number of the catalog in that process.
    number: u64,
}

impl Other {
    /// Opens a catalog in the other process.
    pub(super) async fn open(socket: &Path) -> Self {
        let mut other = Self {
            socket: socket.to_owned(),
            number: 0,
        };
        other.number = other.ask(OPEN, &[]).await.unwrap();
        other
    }

    /// Returns the answer to a call with encoded arguments. If the future is
    /// dropped, so is that of the call.
    pub(super) async fn ask<T: Wire>(&self, call: &str, arguments: &[u8]) -> Result<T> {
        let mut message = to_bytes(&(self.number, call.to_owned()));
        message.extend(arguments);
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        send(&mut stream, &message).await.unwrap();
        let answer = receive(&mut stream).await.unwrap();
        Wire::take(&mut answer.as_slice())
    }

    pub(super) async fn close(&self) {
        self.ask::<()>(CLOSE, &[]).await.unwrap();
    }
}

type Catalogs = Arc<Mutex<HashMap<u64, Arc<PostgresCatalog>>>>;

/// Serves the catalog at `url` until the process ends.
pub(super) async fn serve(listener: UnixListener, url: String) {
    let catalogs = Catalogs::default();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (catalogs, url) = (catalogs.clone(), url.clone());
        tokio::spawn(async move {
            let message = receive(&mut stream).await.unwrap();
            let answer = tokio::select! {
                answer = carry_out(&catalogs, &url, &message) => answer,
                // The caller has dropped the call.
                _ = stream.read_u8() => return,
            };
            // The caller may have dropped the call by now.
            let _ = send(&mut stream, &answer).await;
        });
    }
}

async fn carry_out(catalogs: &Catalogs, url: &str, mut message: &[u8]) -> Vec<u8> {
    let (number, call) = <(u64, String)>::take(&mut message);
    if call == OPEN {
        let catalog = Arc::new(Temporary::open_at(url).await);
        let mut catalogs = catalogs.lock();
        let number = catalogs.len() as u64;
        catalogs.insert(number, catalog);
        return to_bytes(&Result::Ok(number));
    }
    let catalog = Arc::clone(&catalogs.lock()[&number]);
    if call == CLOSE {
        catalog.close().await;
        return to_bytes(&Result::Ok(()));
    }
    answer(&catalog, &call, &mut message).await
}
