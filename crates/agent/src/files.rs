//! Operations on files of the sandbox, each on a separate tunnel.
//!
//! The agent has the rights of the sandbox's user, but more than that on
//! itself: `resolve` denies the files by which `/proc` shows processes. Files
//! are read and written on a few threads of their own, because a disk may
//! block.

mod change;
mod list;
mod open;
mod put;
mod resolve;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use elevo_agent_proto::v1::file_operation::Operation;
use elevo_agent_proto::v1::tunnel_piece::Content;
use elevo_agent_proto::v1::{
    FileFailure, FileOperation, FileRange, FileResult, FileStat, PutFile, TunnelPiece,
};
use elevo_agent_proto::{MAX_PIECE, data_piece, end_piece};
use rustix::io::Errno;
use tokio::sync::{Semaphore, mpsc};
use tonic::Streaming;

use self::put::NewFile;

/// Maximum number of threads for files.
pub(crate) const THREADS: usize = 4;

static TURNS: Semaphore = Semaphore::const_new(THREADS);

type Outcome<T> = Result<T, FileFailure>;

/// The stream of one operation.
pub(crate) struct Exchange {
    pub(crate) inbound: Streaming<TunnelPiece>,
    pub(crate) outgoing: mpsc::Sender<TunnelPiece>,
}

/// Runs an operation to its end. Returns early if the server drops the tunnel.
pub(crate) async fn serve(request: FileOperation, exchange: &mut Exchange) {
    let path = path_of(&request.path);
    // An error says that the server has dropped the tunnel.
    let _ = match request.operation {
        Some(Operation::Open(_)) => exchange.open(path).await,
        Some(Operation::List(wish)) => {
            let listed = blocking(move || list::list(&path?, &wish)).await;
            exchange.list(listed).await
        }
        Some(Operation::Put(wish)) => exchange.put(path, wish).await,
        Some(Operation::Remove(wish)) => {
            let removed = blocking(move || change::remove(&path?, &wish)).await;
            exchange
                .result(removed.map(|()| FileResult::default()))
                .await
        }
        Some(Operation::Rename(wish)) => {
            let to = path_of(&wish.to);
            let moving = move || change::rename(&path?, &to?, wish.overwrite);
            let moved = blocking(moving).await;
            exchange.result(moved.map(|stat| done(stat, false))).await
        }
        Some(Operation::MakeDirectory(wish)) => {
            let making = move || change::make_directory(&path?, wish);
            let made = blocking(making).await;
            let made = made.map(|(stat, is_new)| done(stat, is_new));
            exchange.result(made).await
        }
        None => exchange.result(Err(FileFailure::Other)).await,
    };
}

fn path_of(bytes: &[u8]) -> Outcome<PathBuf> {
    let path = Path::new(OsStr::from_bytes(bytes));
    match path.is_absolute() {
        true => Ok(path.to_owned()),
        false => Err(FileFailure::NotFound),
    }
}

fn done(stat: FileStat, is_new: bool) -> FileResult {
    FileResult {
        stat: Some(stat),
        is_new,
        ..FileResult::default()
    }
}

/// Runs `work` on a thread that may block. The work is completed even if the
/// caller is cancelled.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let turn = TURNS.acquire().await;
    let working = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    working.await.unwrap_or(Err(FileFailure::Other))
}

/// The server has dropped the tunnel.
struct Dropped;

impl Exchange {
    async fn send(&self, piece: TunnelPiece) -> Result<(), Dropped> {
        self.outgoing.send(piece).await.map_err(|_| Dropped)
    }

    async fn result(&self, result: Outcome<FileResult>) -> Result<(), Dropped> {
        let result = result.unwrap_or_else(|failure| FileResult {
            failure: failure.into(),
            ..FileResult::default()
        });
        self.send(of(Content::File(result))).await
    }

    async fn open(&mut self, path: Outcome<PathBuf>) -> Result<(), Dropped> {
        let opened = blocking(move || open::open(&path?)).await;
        let (mut file, stat) = match opened {
            Ok(opened) => opened,
            Err(failure) => return self.result(Err(failure)).await,
        };
        self.result(Ok(done(stat, false))).await?;
        let FileRange {
            mut offset,
            mut length,
        } = self.range().await?;
        while length > 0 {
            let size = length.min(MAX_PIECE as u64);
            let reading = move || {
                let piece = file.read_at(offset, size as usize)?;
                Ok((file, piece))
            };
            let piece;
            // A file that became shorter ends without an end.
            (file, piece) = blocking(reading).await.map_err(|_| Dropped)?;
            self.send(data_piece(piece)).await?;
            (offset, length) = (offset + size, length - size);
        }
        self.send(end_piece()).await
    }

    async fn range(&mut self) -> Result<FileRange, Dropped> {
        while let Ok(Some(piece)) = self.inbound.message().await {
            if let Some(Content::Range(range)) = piece.content {
                return Ok(range);
            }
        }
        Err(Dropped)
    }

    async fn list(&self, listed: Outcome<list::Listed>) -> Result<(), Dropped> {
        let listed = match listed {
            Ok(listed) => listed,
            Err(failure) => return self.result(Err(failure)).await,
        };
        let result = FileResult {
            has_more: listed.has_more,
            ..FileResult::default()
        };
        self.result(Ok(result)).await?;
        for entries in listed.pieces {
            self.send(of(Content::Entries(entries))).await?;
        }
        self.send(end_piece()).await
    }

    async fn put(&mut self, path: Outcome<PathBuf>, wish: PutFile) -> Result<(), Dropped> {
        let parents = wish.parents;
        let beginning = move || NewFile::new(&path?, parents);
        let mut file = match blocking(beginning).await {
            Ok(file) => file,
            Err(failure) => return self.result(Err(failure)).await,
        };
        loop {
            let Ok(Some(piece)) = self.inbound.message().await else {
                return Err(Dropped);
            };
            let written = match piece.content {
                Some(Content::Data(data)) => {
                    blocking(move || file.write(&data).map(|()| file)).await
                }
                Some(Content::End(_)) => break,
                _ => continue,
            };
            file = match written {
                Ok(file) => file,
                Err(failure) => return self.result(Err(failure)).await,
            };
        }
        let put = blocking(move || file.put(&wish)).await;
        self.result(put.map(|(stat, is_new)| done(stat, is_new)))
            .await
    }
}

fn of(content: Content) -> TunnelPiece {
    TunnelPiece {
        content: Some(content),
        ..TunnelPiece::default()
    }
}

/// Converts the error of a system call.
fn failed(errno: Errno) -> FileFailure {
    match errno {
        Errno::NOENT => FileFailure::NotFound,
        Errno::ISDIR => FileFailure::IsDirectory,
        Errno::NOTDIR => FileFailure::NotDirectory,
        Errno::NXIO => FileFailure::NotAFile,
        Errno::EXIST => FileFailure::Exists,
        Errno::NOTEMPTY => FileFailure::NotEmpty,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FileFailure::Denied,
        Errno::NOSPC | Errno::DQUOT => FileFailure::Full,
        Errno::NAMETOOLONG => FileFailure::NameTooLong,
        Errno::LOOP => FileFailure::Loop,
        Errno::XDEV => FileFailure::OtherDevice,
        _ => FileFailure::Other,
    }
}
