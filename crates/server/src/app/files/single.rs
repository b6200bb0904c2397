//! Single files of a workspace and its home, by the server itself: also while
//! the sandbox is stopped, and for a workspace without one.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use elevo_api as api;
use elevo_api::{FileInfo, FileKind, Scope};
use elevo_core::{ErrorCode, TenantId, Timestamp};
use futures::stream::{self, BoxStream, StreamExt};

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::files::place::Place;
use crate::app::files::target::{HeldTarget, Need, Target, WorkspaceRef};
use crate::app::pages::{self, PageQuery};
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result, chain};
use crate::platform::clock;
use crate::platform::files::read::OpenedFile;
use crate::platform::files::stat::{Condition, FileStat, Kind};
use crate::platform::files::{FileError, Root};
use crate::platform::share::{self, Held};

/// Size of the pieces in which files are read and written.
pub(super) const PIECE: usize = 256 << 10;

/// Files up to this size are read at once, when they are opened. Their memory
/// does not count towards the tenant's share.
pub(super) const SMALL: usize = 32 << 10;

/// Maximum waits for the end of a clock tick, until a tag becomes weak.
const WAITS: usize = 3;

/// An open file, whose content is read while it is sent.
pub(crate) struct OpenFile {
    pub(crate) info: FileInfo,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) modified: SystemTime,
    pub(super) content: ReadRange,
}

/// Reads a range of the content of an open file.
pub(super) type ReadRange = Box<dyn FnOnce(Range<u64>) -> BoxStream<'static, Result<Bytes>> + Send>;

impl OpenFile {
    /// Streams a range of the content. Fails if the file has become shorter.
    pub(crate) fn pieces(self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        (self.content)(range)
    }
}

impl Files {
    /// Opens a file to read it.
    pub(crate) async fn open_file(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &[u8],
    ) -> Result<OpenFile> {
        who.needs(Scope::Files)?;
        let place = Place::parse(path)?;
        if let Place::Container(path) = &place {
            return self.open_elsewhere(who, of, path).await;
        }
        let target = self.target(who, of, Need::Transfer).await?;
        let tenant = target.tenant;
        for wait in 0.. {
            let opening = self.beneath(&target, &place, Need::Transfer, |root, path| {
                // Before the file is looked at: a later write may have the same
                // time as the metadata.
                let now = clock::system();
                let (file, stat) = root.open_file(path)?;
                let small = match stat.size {
                    size if size <= SMALL as u64 => file.read_at(0, size as usize).ok(),
                    _ => None,
                };
                Ok((file, stat, small, now))
            });
            let (file, stat, small, now) = opening.await?;
            let unsettled = stat.unsettled(now);
            // A process made the file shorter while it was read.
            let is_cut = small.is_none() && stat.size <= SMALL as u64;
            if wait < WAITS && (unsettled.is_some() || is_cut) {
                tokio::time::sleep(unsettled.unwrap_or_default()).await;
                continue;
            }
            let content: ReadRange = match small {
                Some(small) => Box::new(|range| whole(small.into(), range)),
                None => {
                    let held = self.stores.shares.hold(tenant, 2 * PIECE);
                    let reading = Reading {
                        stores: self.stores.clone(),
                        tenant,
                        file,
                        left: 0..0,
                        _held: held.ok_or_else(share::too_many_bytes)?,
                    };
                    Box::new(|range| reading.pieces(range))
                }
            };
            return Ok(OpenFile {
                info: info(&place.shown(), &stat, now),
                mode: stat.mode,
                modified: stat.modified_at(),
                content,
            });
        }
        unreachable!("the last wait is followed by a response")
    }

    /// Lists a page of a directory.
    pub(crate) async fn list_files(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &[u8],
        page: PageQuery,
    ) -> Result<api::FilePage> {
        who.needs(Scope::Files)?;
        let place = Place::parse(path)?;
        if let Place::Container(path) = &place {
            return self.list_elsewhere(who, of, path, &page).await;
        }
        let after = page.bytes()?.unwrap_or_default();
        let target = self.target(who, of, Need::Transfer).await?;
        let limit = page.limit as usize;
        let listing = self.beneath(&target, &place, Need::Transfer, move |root, path| {
            let now = clock::system();
            Ok((root.list(path, &after, limit)?, now))
        });
        let (listed, now) = listing.await?;
        let directory = place.shown();
        let entries = listed.entries.iter();
        let items = entries.map(|(name, stat)| {
            let name = std::os::unix::ffi::OsStrExt::from_bytes(name.as_slice());
            let name: &std::ffi::OsStr = name;
            info(&directory.join(name), stat, now)
        });
        Ok(api::FilePage {
            snapshot: None,
            items: items.collect(),
            next: listed.next.map(|name| pages::of_bytes(&name)),
        })
    }

    /// Deletes a file, a link or a directory.
    pub(crate) async fn remove_file(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &[u8],
        recursive: bool,
        condition: Condition,
    ) -> Result<()> {
        who.needs(Scope::Files)?;
        let place = Place::parse(path)?;
        if let Place::Container(path) = &place {
            let removing = self.remove_elsewhere(who, of, path, recursive, condition);
            return removing.await;
        }
        let (target, held) = self.target_to_change(who, of).await?;
        // A directory has no tag, and its deletion may take long.
        let turn = match recursive && condition.matches.is_none() {
            true => None,
            false => Some(self.turns.hold(&target.id).await),
        };
        let removing = self.beneath(&target, &place, Need::Write, move |root, path| {
            let _held = (held, turn);
            root.remove(path, recursive, &condition)
        });
        removing.await
    }

    /// Moves a file, a link or a directory.
    pub(crate) async fn rename_file(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        wish: &api::MoveFile,
    ) -> Result<FileInfo> {
        who.needs(Scope::Files)?;
        let from = Place::parse(wish.from.as_bytes())?;
        let to = Place::parse(wish.to.as_bytes())?;
        let overwrite = wish.overwrite;
        let (old, new) = match (&from, &to) {
            (Place::Container(from), Place::Container(to)) => {
                let paths = (from.as_path(), to.as_path());
                return self.rename_elsewhere(who, of, paths, overwrite).await;
            }
            (Place::Workspace(from), Place::Workspace(to))
            | (Place::Home(from), Place::Home(to)) => (from.clone(), to.clone()),
            _ => {
                let message = "`from` and `to` must both be below /workspace, both below \
                               /home/agent, or both outside of them";
                let remedy = "Download the file and upload it at the new path, or move it with \
                              a command.";
                return Err(Failure::invalid(message).remediation(remedy));
            }
        };
        let (target, held) = self.target_to_change(who, of).await?;
        let turn = self.turns.hold(&target.id).await;
        let moving = self.beneath(&target, &to, Need::Write, move |root, _| {
            let _held = (held, turn);
            let now = clock::system();
            Ok((root.rename(&old, &new, overwrite)?, now))
        });
        let (stat, now) = moving.await?;
        Ok(info(&to.shown(), &stat, now))
    }

    /// Creates a directory. Returns false if it existed.
    pub(crate) async fn make_directory(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &str,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<(FileInfo, bool)> {
        who.needs(Scope::Files)?;
        let place = Place::parse(path.as_bytes())?;
        if let Place::Container(path) = &place {
            let making = self.make_directory_elsewhere(who, of, path, mode, parents);
            return making.await;
        }
        let (target, held) = self.target_to_change(who, of).await?;
        let making = self.beneath(&target, &place, Need::Write, move |root, path| {
            let _held = held;
            root.make_directory_at(path, mode, parents)
        });
        let (stat, is_new) = making.await?;
        Ok((info(&place.shown(), &stat, clock::system()), is_new))
    }

    /// Returns the target of a change. A workspace by its own id is locked:
    /// otherwise another request could park it meanwhile, and lose a file that
    /// is written after its snapshot.
    pub(super) async fn target_to_change(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
    ) -> Result<(Target, Option<HeldTarget>)> {
        match of {
            WorkspaceRef::Workspace(_) => {
                let (target, held) = self.held(who, of, Need::Write).await?;
                Ok((target, Some(held)))
            }
            WorkspaceRef::Sandbox(_) => Ok((self.target(who, of, Need::Write).await?, None)),
        }
    }

    /// Runs `work` on the directory of a place, on a thread that may block, with
    /// the path below it. The work is completed even if the client disconnects.
    pub(super) async fn beneath<T: Send + 'static>(
        &self,
        target: &Target,
        place: &Place,
        need: Need,
        work: impl FnOnce(&Root, &Path) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T> {
        let (id, place) = (target.id.clone(), place.clone());
        let working = self.stores.with(target.tenant, move |workspaces| {
            let record = workspaces.get(&id)?;
            let (root, path) = match &place {
                Place::Workspace(_) if record.read_only && need == Need::Write => {
                    return Err(elevo_workspace::Error::ReadOnly(id).into());
                }
                Place::Workspace(path) => (workspaces.path(&id)?, path),
                Place::Home(path) => (workspaces.home(&id)?, path),
                Place::Container(path) => return Err(super::elsewhere::not_reachable(path)),
            };
            let owner = record.owner.map(|owner| (owner.uid, owner.gid));
            Ok(work(&Root::open(&root, owner)?, path)?)
        });
        working.await
    }
}

/// A file that is read while it is sent.
struct Reading {
    stores: Arc<TenantStores>,
    tenant: TenantId,
    file: OpenedFile,
    left: Range<u64>,
    _held: Held,
}

impl Reading {
    fn pieces(mut self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        self.left = range;
        let pieces = stream::try_unfold(self, async |mut reading| {
            let piece = reading.next().await?;
            Ok(piece.map(|piece| (piece, reading)))
        });
        pieces.boxed()
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        let Range { start, end } = self.left;
        if start >= end {
            return Ok(None);
        }
        let size = (end - start).min(PIECE as u64);
        self.left.start += size;
        let reading = async { self.file.read_at(start, size as usize) };
        let piece = self.stores.shares.apart(self.tenant, reading).await;
        match piece {
            Ok(piece) => Ok(Some(piece.into())),
            Err(error) => Err(FileError::Io(error).into()),
        }
    }
}

/// Streams a range of content in memory.
fn whole(content: Bytes, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
    let end = usize::try_from(range.end).unwrap_or(usize::MAX);
    let end = end.min(content.len());
    let start = usize::try_from(range.start).unwrap_or(usize::MAX);
    let piece = content.slice(start.min(end)..end);
    let pieces = (!piece.is_empty()).then_some(Ok(piece));
    stream::iter(pieces).boxed()
}

fn timestamp(stat: &FileStat) -> Timestamp {
    let (seconds, nanos) = stat.modified;
    Timestamp::new(seconds, nanos).unwrap_or_else(clock::now)
}

/// Returns the metadata of a file in the form of the API. `now` is a time before
/// the metadata were read.
pub(super) fn info(path: &Path, stat: &FileStat, now: SystemTime) -> FileInfo {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let is_directory = stat.kind == Kind::Directory;
    let target = stat.target.as_deref();
    FileInfo {
        path: text(path),
        name: path
            .file_name()
            .map_or_else(String::new, |name| text(Path::new(name))),
        kind: match stat.kind {
            Kind::File => FileKind::File,
            Kind::Directory => FileKind::Directory,
            Kind::Symlink => FileKind::Symlink,
            Kind::Other => FileKind::Other,
        },
        size: (!is_directory).then_some(stat.size),
        mode: format!("{:04o}", stat.mode),
        modified_at: Some(clock::text(timestamp(stat))),
        etag: (!is_directory).then(|| stat.etag(now)),
        target: target.map(|target| String::from_utf8_lossy(target).into_owned()),
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let code = match &error {
            FileError::NotFound(_) | FileError::LeadsOut(_) => ErrorCode::PathNotFound,
            FileError::IsDirectory(_) => ErrorCode::IsADirectory,
            FileError::NotDirectory(_) => ErrorCode::NotADirectory,
            FileError::NotAFile(_) => ErrorCode::NotAFile,
            FileError::Exists(_) => ErrorCode::PathExists,
            FileError::NotEmpty(_) => ErrorCode::DirectoryNotEmpty,
            FileError::Precondition(_) => ErrorCode::PreconditionFailed,
            FileError::Invalid { .. } => ErrorCode::InvalidRequest,
            FileError::Changed => ErrorCode::WorkspaceBusy,
            FileError::Full => ErrorCode::DiskFull,
            FileError::Io(_) => return Self::internal(&error),
        };
        let failure = Self::new(code, chain(&error));
        match code {
            ErrorCode::WorkspaceBusy => failure.retry_after(1),
            _ => failure,
        }
    }
}
