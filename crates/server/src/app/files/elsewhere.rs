//! Files of a running sandbox outside of its workspace and its home. The agent
//! in the container reads and changes them, with the rights of the sandbox's
//! user.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use elevo_agent_link::{AgentLink, FileCondition, FileFailure, FileUpload, LinkError, PutFile};
use elevo_api as api;
use elevo_api::Scope;
use elevo_core::ErrorCode;
use futures::stream::{self, BoxStream, StreamExt};

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::files::single::{OpenFile, PIECE, SMALL, info};
use crate::app::files::target::WorkspaceRef;
use crate::app::files::uploads::PutOptions;
use crate::app::pages::{self, PageQuery};
use crate::failure::{Failure, Result, short};
use crate::platform::clock;
use crate::platform::files::FileError;
use crate::platform::files::stat::{Condition, FileStat, Tags};
use crate::platform::share::{self, Held};

/// Maximum time until the agent has read a part of a file.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file that is being uploaded to the container.
pub(crate) struct UploadElsewhere {
    path: PathBuf,
    upload: FileUpload,
    length: u64,
}

impl Files {
    pub(super) async fn open_elsewhere(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &Path,
    ) -> Result<OpenFile> {
        let link = self.agent_elsewhere(who, of, path).await?;
        let now = clock::system();
        let opened = link.open_file(path.as_os_str().as_bytes()).await;
        let opened = opened.map_err(|error| about(error, path))?;
        let stat = FileStat::of_agent(opened.stat.clone());
        let held = match stat.size > SMALL as u64 {
            true => {
                let held = self.stores.shares.hold(who.tenant, 2 * PIECE);
                Some(held.ok_or_else(share::too_many_bytes)?)
            }
            false => None,
        };
        Ok(OpenFile {
            info: info(path, &stat, now),
            mode: stat.mode,
            modified: stat.modified_at(),
            content: Box::new(move |range| {
                let length = range.end.saturating_sub(range.start);
                pieces(opened.read(range.start, length), length, held)
            }),
        })
    }

    pub(super) async fn list_elsewhere(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &Path,
        page: &PageQuery,
    ) -> Result<api::FilePage> {
        let after = page.bytes()?.unwrap_or_default();
        let link = self.agent_elsewhere(who, of, path).await?;
        let now = clock::system();
        let listing = link.list_files(path.as_os_str().as_bytes(), after, page.limit);
        let listed = listing.await.map_err(|error| about(error, path))?;
        let next = listed.entries.last().filter(|_| listed.has_more);
        let next = next.map(|(name, _)| pages::of_bytes(name));
        let items = listed.entries.into_iter().map(|(name, stat)| {
            let name = std::ffi::OsStr::from_bytes(&name);
            info(&path.join(name), &FileStat::of_agent(stat), now)
        });
        Ok(api::FilePage {
            snapshot: None,
            items: items.collect(),
            next,
        })
    }

    pub(super) async fn remove_elsewhere(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &Path,
        recursive: bool,
        condition: Condition,
    ) -> Result<()> {
        who.needs(Scope::SandboxesWrite)?;
        let link = self.agent_elsewhere(who, of, path).await?;
        let condition = condition_of(condition);
        let removing = link.remove_file(path.as_os_str().as_bytes(), recursive, condition);
        removing.await.map_err(|error| about(error, path))
    }

    pub(super) async fn rename_elsewhere(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        (from, to): (&Path, &Path),
        overwrite: bool,
    ) -> Result<api::FileInfo> {
        who.needs(Scope::SandboxesWrite)?;
        let link = self.agent_elsewhere(who, of, from).await?;
        let (old, new) = (from.as_os_str().as_bytes(), to.as_os_str().as_bytes());
        let now = clock::system();
        let moved = link.rename_file(old, new, overwrite).await;
        let stat = moved.map_err(|error| match error {
            LinkError::File(FileFailure::Exists | FileFailure::BelowItself) => about(error, to),
            error => about(error, from),
        })?;
        Ok(info(to, &FileStat::of_agent(stat), now))
    }

    pub(super) async fn make_directory_elsewhere(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &Path,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<(api::FileInfo, bool)> {
        who.needs(Scope::SandboxesWrite)?;
        let link = self.agent_elsewhere(who, of, path).await?;
        let making = link.make_directory(path.as_os_str().as_bytes(), mode, parents);
        let (stat, is_new) = making.await.map_err(|error| about(error, path))?;
        Ok((
            info(path, &FileStat::of_agent(stat), clock::system()),
            is_new,
        ))
    }

    pub(super) async fn begin_elsewhere(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &Path,
        options: PutOptions,
    ) -> Result<UploadElsewhere> {
        who.needs(Scope::SandboxesWrite)?;
        let link = self.agent_elsewhere(who, of, path).await?;
        let put = PutFile {
            mode: options.mode,
            parents: options.parents,
            sync: options.sync,
            condition: condition_of(options.condition),
        };
        let upload = link.put_file(path.as_os_str().as_bytes(), put).await;
        Ok(UploadElsewhere {
            path: path.to_owned(),
            upload: upload.map_err(|error| about(error, path))?,
            length: 0,
        })
    }

    pub(super) async fn append_elsewhere(
        &self,
        upload: &mut UploadElsewhere,
        piece: &[u8],
    ) -> Result<()> {
        upload.length += piece.len() as u64;
        self.check_length(upload.length)?;
        let written = upload.upload.write(piece).await;
        written.map_err(|error| about(error, &upload.path))
    }

    pub(super) async fn finish_elsewhere(
        &self,
        upload: UploadElsewhere,
    ) -> Result<(api::FileInfo, bool)> {
        let UploadElsewhere { path, upload, .. } = upload;
        let now = clock::system();
        let put = upload.finish().await;
        let (stat, is_new) = put.map_err(|error| about(error, &path))?;
        Ok((info(&path, &FileStat::of_agent(stat), now), is_new))
    }

    /// Returns the agent of the sandbox that a request names.
    async fn agent_elsewhere(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &Path,
    ) -> Result<AgentLink> {
        match of {
            WorkspaceRef::Sandbox(id) => self.sandboxes.agent_of(who, id).await,
            WorkspaceRef::Workspace(id) => {
                // Another tenant's workspace is not found, with any path.
                self.workspaces.visible(who, id).await?;
                Err(not_reachable(path))
            }
        }
    }
}

/// Streams the content of a file, which must have this length.
fn pieces(
    content: elevo_agent_link::TunnelStream,
    length: u64,
    held: Option<Held>,
) -> BoxStream<'static, Result<Bytes>> {
    let reading = (content, length, held);
    let pieces = stream::try_unfold(reading, async |(mut content, left, held)| {
        if left == 0 {
            return Ok(None);
        }
        let piece = tokio::time::timeout(PATIENCE, content.next_data()).await;
        let piece = piece.ok().and_then(|read| read.ok().flatten());
        let left = |piece: &Bytes| left.checked_sub(piece.len() as u64);
        match piece.as_ref().and_then(left).zip(piece) {
            Some((left, piece)) => Ok(Some((piece, (content, left, held)))),
            None => {
                let message = "the file could not be read to its end";
                Err(Failure::new(ErrorCode::AgentUnreachable, message).retry_after(1))
            }
        }
    });
    pieces.boxed()
}

fn condition_of(condition: Condition) -> FileCondition {
    let (exists, tags) = match condition.matches {
        None => (false, Vec::new()),
        Some(Tags::Any) => (true, Vec::new()),
        // No file has a tag of an empty list.
        Some(Tags::These(tags)) if tags.is_empty() => (true, vec![String::new()]),
        Some(Tags::These(tags)) => (true, tags),
    };
    FileCondition {
        exists,
        is_new: condition.is_new,
        tags,
    }
}

/// Returns the failure of an operation on a file in a container.
fn about(error: LinkError, path: &Path) -> Failure {
    let LinkError::File(failure) = error else {
        return error.into();
    };
    let shown = short(&path.to_string_lossy());
    let invalid = |why| FileError::Invalid {
        path: path.into(),
        why,
    };
    let error = match failure {
        FileFailure::NotFound => FileError::NotFound(path.into()),
        FileFailure::IsDirectory => FileError::IsDirectory(path.into()),
        FileFailure::NotDirectory => FileError::NotDirectory(path.into()),
        FileFailure::NotAFile => FileError::NotAFile(path.into()),
        FileFailure::Exists => FileError::Exists(path.into()),
        FileFailure::NotEmpty => FileError::NotEmpty(path.into()),
        FileFailure::Precondition => FileError::Precondition(path.into()),
        FileFailure::NameTooLong => invalid("has a name of more than 255 bytes, or is too long"),
        FileFailure::Loop => invalid("is a loop of links"),
        FileFailure::BelowItself => invalid("is below the directory that is moved"),
        FileFailure::OtherDevice => {
            invalid("is on another file system than its new path; move it with a command")
        }
        FileFailure::Full => {
            let message = format!("the file system of `{shown}` in the sandbox is full");
            return Failure::new(ErrorCode::DiskFull, message);
        }
        FileFailure::Denied => {
            let message = format!("the user of the sandbox has no right to do this with `{shown}`");
            let remedy = "Use a path that the user of the sandbox can read or write.";
            return Failure::new(ErrorCode::Forbidden, message).remediation(remedy);
        }
        FileFailure::TooLarge => {
            let message = format!("`{shown}` is too large to be read in the sandbox");
            return Failure::new(ErrorCode::PayloadTooLarge, message);
        }
        FileFailure::Other | FileFailure::None => invalid("could not be used in the sandbox"),
    };
    error.into()
}

/// Returns the failure of a request for a file that the server cannot reach.
pub(super) fn not_reachable(path: &Path) -> Failure {
    let path = short(&path.to_string_lossy());
    Failure::invalid(format!(
        "`{path}` is neither below /workspace nor below /home/agent"
    ))
}
