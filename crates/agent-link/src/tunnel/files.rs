//! Operations on files of a sandbox, by its agent. Everything that the agent
//! reports is bounded and checked: it runs next to hostile programs.

use std::time::Duration;

use bytes::Bytes;
use elevo_agent_proto::v1::file_operation::Operation;
use elevo_agent_proto::v1::open_tunnel::Target;
use elevo_agent_proto::v1::tunnel_piece::Content;
use elevo_agent_proto::v1::{self, FileOperation, FileRange, FileResult};
use futures::FutureExt;
use tokio::io::AsyncWriteExt;

use super::TunnelStream;
use crate::error::LinkError;
use crate::link::AgentLink;

/// Maximum time until an operation has a result.
const TIME_FOR_RESULT: Duration = Duration::from_secs(60);

/// Maximum length of a name.
pub(crate) const MAX_NAME: usize = 255;

/// Maximum length of the target of a symbolic link.
pub(crate) const MAX_TARGET: usize = 4096;

pub use elevo_agent_proto::v1::{FileFailure, FileKind};

/// The metadata of a file in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// The kind of the file.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Time of the last change of the content: seconds and nanoseconds since
    /// 1970.
    pub modified: (i64, u32),
    /// Time of the last change of the content or the metadata.
    pub changed: (i64, u32),
    /// Number of the file in its file system.
    pub inode: u64,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
}

/// A file that is open in the sandbox.
#[derive(Debug)]
pub struct OpenFile {
    /// The metadata.
    pub stat: FileStat,
    stream: TunnelStream,
}

/// A page of a directory in a sandbox, by name.
#[derive(Debug, Default)]
pub struct FileList {
    /// Names and metadata.
    pub entries: Vec<(Vec<u8>, FileStat)>,
    /// Whether entries follow after this page.
    pub has_more: bool,
}

/// The preconditions of a change.
#[derive(Debug, Clone, Default)]
pub struct FileCondition {
    /// The file must exist.
    pub exists: bool,
    /// The file must not exist.
    pub is_new: bool,
    /// If not empty, the file must have one of these tags.
    pub tags: Vec<String>,
}

/// A file to write.
#[derive(Debug, Clone, Default)]
pub struct PutFile {
    /// Permission bits; by default those of the replaced file, or `0644`.
    pub mode: Option<u32>,
    /// Whether missing directories are created.
    pub parents: bool,
    /// Whether the file is written to the disk.
    pub sync: bool,
    /// The precondition.
    pub condition: FileCondition,
}

/// A file that is being written in the sandbox. Dropping it writes no file.
#[derive(Debug)]
pub struct FileUpload(TunnelStream);

impl AgentLink {
    /// Opens a regular file to read it.
    ///
    /// # Errors
    ///
    /// [`LinkError::File`] if the operation failed; the same for all operations
    /// on files.
    pub async fn open_file(&self, path: &[u8]) -> Result<OpenFile, LinkError> {
        let (result, stream) = self.operate(path, Operation::Open(v1::OpenFile {})).await?;
        let stat = stat_of(result.stat)?;
        Ok(OpenFile { stat, stream })
    }

    /// Lists the first entries of a directory whose names are after `after`.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::open_file`].
    pub async fn list_files(
        &self,
        path: &[u8],
        after: Vec<u8>,
        limit: u32,
    ) -> Result<FileList, LinkError> {
        let wish = v1::ListFiles {
            after: after.clone().into(),
            limit,
        };
        let (result, mut stream) = self.operate(path, Operation::List(wish)).await?;
        let mut listing = Listing::new(after, limit);
        listing.list.has_more = result.has_more;
        let receiving = async {
            loop {
                match stream.next_piece().await {
                    Some(Content::Entries(piece)) => listing.add(piece)?,
                    Some(Content::End(_)) => return Ok(()),
                    Some(_) => return Err(violation()),
                    None => return Err(LinkError::Disconnected),
                }
            }
        };
        timely(receiving).await??;
        Ok(listing.list)
    }

    /// Begins to write a file.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::open_file`], except that failures come later.
    pub async fn put_file(&self, path: &[u8], put: PutFile) -> Result<FileUpload, LinkError> {
        let wish = v1::PutFile {
            mode: put.mode,
            parents: put.parents,
            sync: put.sync,
            condition: Some(put.condition.into()),
        };
        let target = target_of(path, Operation::Put(wish));
        Ok(FileUpload(self.open_tunnel(target).await?))
    }

    /// Deletes a file, a link or a directory.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::open_file`].
    pub async fn remove_file(
        &self,
        path: &[u8],
        recursive: bool,
        condition: FileCondition,
    ) -> Result<(), LinkError> {
        let wish = v1::RemoveFile {
            recursive,
            condition: Some(condition.into()),
        };
        self.operate(path, Operation::Remove(wish)).await.map(drop)
    }

    /// Moves a file, a link or a directory.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::open_file`].
    pub async fn rename_file(
        &self,
        from: &[u8],
        to: &[u8],
        overwrite: bool,
    ) -> Result<FileStat, LinkError> {
        let to = Bytes::copy_from_slice(to);
        let wish = v1::RenameFile { to, overwrite };
        let (result, _) = self.operate(from, Operation::Rename(wish)).await?;
        stat_of(result.stat)
    }

    /// Creates a directory. Also returns whether it is new.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::open_file`].
    pub async fn make_directory(
        &self,
        path: &[u8],
        mode: Option<u32>,
        parents: bool,
    ) -> Result<(FileStat, bool), LinkError> {
        let wish = v1::MakeDirectory { mode, parents };
        let (result, _) = self.operate(path, Operation::MakeDirectory(wish)).await?;
        Ok((stat_of(result.stat)?, result.is_new))
    }

    /// Starts an operation and waits for its result.
    async fn operate(
        &self,
        path: &[u8],
        operation: Operation,
    ) -> Result<(FileResult, TunnelStream), LinkError> {
        let mut stream = self.open_tunnel(target_of(path, operation)).await?;
        let result = timely(stream.result()).await??;
        Ok((result, stream))
    }
}

/// A list that is being received.
pub(crate) struct Listing {
    pub(crate) list: FileList,
    last: Vec<u8>,
    limit: u32,
}

impl Listing {
    pub(crate) fn new(after: Vec<u8>, limit: u32) -> Self {
        Self {
            list: FileList::default(),
            last: after,
            limit,
        }
    }

    /// Adds entries, which must be names of one directory in their order.
    pub(crate) fn add(&mut self, piece: v1::FileEntries) -> Result<(), LinkError> {
        for v1::FileEntry { name, stat } in piece.entries {
            let is_name = (1..=MAX_NAME).contains(&name.len())
                && !name.contains(&b'/')
                && !name.contains(&0)
                && !matches!(&name[..], b"." | b"..");
            let has_room = self.list.entries.len() < self.limit as usize;
            if !is_name || !has_room || name[..] <= self.last[..] {
                return Err(violation());
            }
            self.last = name.to_vec();
            self.list.entries.push((name.to_vec(), stat_of(stat)?));
        }
        Ok(())
    }
}

impl OpenFile {
    /// Reads a range. The stream ends after it; an earlier end is an error.
    #[must_use]
    pub fn read(self, offset: u64, length: u64) -> TunnelStream {
        self.stream.send_first(v1::TunnelPiece {
            content: Some(Content::Range(FileRange { offset, length })),
            ..v1::TunnelPiece::default()
        });
        self.stream
    }
}

impl FileUpload {
    /// Appends to the content. Waits while the agent has no space.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::open_file`].
    pub async fn write(&mut self, data: &[u8]) -> Result<(), LinkError> {
        // A failure comes before the end of the content.
        if let Some(result) = self.0.result().now_or_never() {
            return result.and(Err(violation()));
        }
        let written = timely(self.0.write_all(data)).await?;
        written.map_err(|_| LinkError::Disconnected)
    }

    /// Puts the complete file at its path. Also returns whether it is new.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::open_file`].
    pub async fn finish(mut self) -> Result<(FileStat, bool), LinkError> {
        // Never fails.
        let _ = self.0.shutdown().await;
        let result = timely(self.0.result()).await??;
        Ok((stat_of(result.stat)?, result.is_new))
    }
}

impl TunnelStream {
    /// Returns the result of an operation, which is the agent's first piece.
    async fn result(&mut self) -> Result<FileResult, LinkError> {
        match self.next_piece().await {
            Some(Content::File(result)) => match result.failure() {
                FileFailure::None => Ok(result),
                failure => Err(LinkError::File(failure)),
            },
            Some(_) => Err(violation()),
            None => Err(LinkError::Disconnected),
        }
    }
}

impl From<FileCondition> for v1::FileCondition {
    fn from(condition: FileCondition) -> Self {
        Self {
            exists: condition.exists,
            is_new: condition.is_new,
            tags: condition.tags,
        }
    }
}

fn target_of(path: &[u8], operation: Operation) -> Target {
    Target::File(FileOperation {
        path: Bytes::copy_from_slice(path),
        operation: Some(operation),
    })
}

async fn timely<T>(future: impl Future<Output = T>) -> Result<T, LinkError> {
    let timely = tokio::time::timeout(TIME_FOR_RESULT, future).await;
    timely.map_err(|_| LinkError::TimedOut)
}

/// Returns checked metadata.
pub(crate) fn stat_of(stat: Option<v1::FileStat>) -> Result<FileStat, LinkError> {
    let stat = stat.ok_or_else(violation)?;
    let is_time = |nanos: u32| nanos < 1_000_000_000;
    let is_valid = is_time(stat.modified_nanos)
        && is_time(stat.changed_nanos)
        && stat.target.len() <= MAX_TARGET
        && i64::try_from(stat.size).is_ok();
    if !is_valid {
        return Err(violation());
    }
    Ok(FileStat {
        kind: stat.kind(),
        size: stat.size,
        mode: stat.mode & 0o7777,
        modified: (stat.modified_seconds, stat.modified_nanos),
        changed: (stat.changed_seconds, stat.changed_nanos),
        inode: stat.inode,
        target: stat.target.to_vec(),
    })
}

/// Returns the failure of an agent that violates the protocol.
fn violation() -> LinkError {
    LinkError::File(FileFailure::Other)
}
