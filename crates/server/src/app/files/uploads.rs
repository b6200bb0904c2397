//! Uploads of single files. The body goes piece by piece into a file without a
//! name, so that neither the size of the file nor a slow client costs memory or
//! a thread.

use elevo_api::{FileInfo, Scope};
use elevo_core::ErrorCode;

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::files::elsewhere::UploadElsewhere;
use crate::app::files::place::Place;
use crate::app::files::single::{PIECE, SMALL, info};
use crate::app::files::target::{Need, Target, WorkspaceRef};
use crate::failure::{Failure, Result};
use crate::platform::clock;
use crate::platform::files::put::{NewFile, Put};
use crate::platform::files::stat::Condition;
use crate::platform::share::{self, Held};

/// The properties of an uploaded file.
#[derive(Clone, Debug)]
pub(crate) struct PutOptions {
    /// Permission bits. By default those of the file that is replaced, or
    /// `0644`.
    pub(crate) mode: Option<u32>,
    /// Whether missing directories are created.
    pub(crate) parents: bool,
    /// Whether the file is written to the disk before the response.
    pub(crate) sync: bool,
    pub(crate) condition: Condition,
}

/// A file that is being uploaded.
pub(crate) enum Upload {
    /// To the workspace or the home, by the server.
    Beneath(Box<UploadBeneath>),
    /// To another place in the container, by the agent in it.
    Elsewhere(Box<UploadElsewhere>),
}

/// A file that is being uploaded to the workspace or the home.
pub(crate) struct UploadBeneath {
    who: Principal,
    of: WorkspaceRef,
    place: Place,
    options: PutOptions,
    target: Target,
    /// The end of the content, which is not in `file` yet.
    buffer: Vec<u8>,
    file: Option<NewFile>,
    length: u64,
    held: Option<Held>,
}

impl Files {
    /// Begins an upload of at least `length` bytes.
    pub(crate) async fn begin_upload(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        path: &[u8],
        (options, length): (PutOptions, u64),
    ) -> Result<Upload> {
        who.needs(Scope::Files)?;
        self.check_length(length)?;
        let place = Place::parse(path)?;
        if let Place::Container(path) = &place {
            let upload = self.begin_elsewhere(who, of, path, options).await?;
            return Ok(Upload::Elsewhere(Box::new(upload)));
        }
        let target = self.target(who, of, Need::Write).await?;
        if let (Place::Workspace(_), Some(row)) = (&place, &target.row)
            && row.read_only
        {
            return Err(elevo_workspace::Error::ReadOnly(target.id).into());
        }
        Ok(Upload::Beneath(Box::new(UploadBeneath {
            who: who.clone(),
            of: of.clone(),
            place,
            options,
            target,
            buffer: Vec::new(),
            file: None,
            length: 0,
            held: None,
        })))
    }

    /// Appends a part of the body to the file.
    pub(crate) async fn append(&self, upload: &mut Upload, piece: &[u8]) -> Result<()> {
        match upload {
            Upload::Beneath(upload) => self.append_beneath(upload, piece).await,
            Upload::Elsewhere(upload) => self.append_elsewhere(upload, piece).await,
        }
    }

    /// Puts the complete file at its path. Returns true if it is new.
    pub(crate) async fn finish_upload(&self, upload: Upload) -> Result<(FileInfo, bool)> {
        match upload {
            Upload::Beneath(upload) => self.finish_beneath(*upload).await,
            Upload::Elsewhere(upload) => self.finish_elsewhere(*upload).await,
        }
    }

    /// Fails if a file has more bytes than the limit.
    pub(super) fn check_length(&self, length: u64) -> Result<()> {
        let most = self.config.limits.max_file;
        if length <= most {
            return Ok(());
        }
        let message = format!("the file has more than {most} bytes");
        let remedy = "Upload a smaller file, or ask the operator to raise MAX_FILE.";
        Err(Failure::new(ErrorCode::PayloadTooLarge, message).remediation(remedy))
    }

    async fn append_beneath(&self, upload: &mut UploadBeneath, piece: &[u8]) -> Result<()> {
        upload.length += piece.len() as u64;
        self.check_length(upload.length)?;
        upload.buffer.extend_from_slice(piece);
        if upload.buffer.len() > SMALL && upload.held.is_none() {
            let held = self.stores.shares.hold(upload.target.tenant, 2 * PIECE);
            upload.held = Some(held.ok_or_else(share::too_many_bytes)?);
        }
        match upload.buffer.len() >= PIECE {
            true => self.flush(upload, false).await,
            false => Ok(()),
        }
    }

    /// Writes the buffer to the file.
    async fn flush(&self, upload: &mut UploadBeneath, sync: bool) -> Result<()> {
        self.room.check()?;
        let mut file = match upload.file.take() {
            Some(file) => file,
            None => {
                let elsewhere = self.config.data_dir.clone();
                let (target, place) = (&upload.target, &upload.place);
                let creating = self.beneath(target, place, Need::Write, move |root, _| {
                    root.new_file(&elsewhere)
                });
                creating.await?
            }
        };
        let writing = async {
            file.write(&upload.buffer)?;
            match sync {
                true => file.sync(),
                false => Ok(()),
            }
        };
        let tenant = upload.target.tenant;
        let written = self.stores.shares.apart(tenant, writing).await;
        upload.file = Some(file);
        written?;
        upload.buffer.clear();
        Ok(())
    }

    async fn finish_beneath(&self, mut upload: UploadBeneath) -> Result<(FileInfo, bool)> {
        if upload.file.is_some() {
            // Only the last step needs the locks.
            let sync = upload.options.sync;
            self.flush(&mut upload, sync).await?;
        }
        // The rights and the workspace may have changed while the body came.
        let (target, held) = self.target_to_change(&upload.who, &upload.of).await?;
        let turn = self.turns.hold(&target.id).await;
        let elsewhere = self.config.data_dir.clone();
        let file = upload.file.take();
        let rest = std::mem::take(&mut upload.buffer);
        let options = upload.options.clone();
        let putting = self.beneath(&target, &upload.place, Need::Write, move |root, path| {
            let _held = (held, turn);
            let mut file = match file {
                Some(file) => file,
                None => root.new_file(&elsewhere)?,
            };
            file.write(&rest)?;
            let put = Put {
                path,
                mode: options.mode,
                parents: options.parents,
                sync: options.sync,
                condition: &options.condition,
                now: clock::system(),
            };
            root.put(file, &put)
        });
        let (stat, is_new) = putting.await?;
        Ok((info(&upload.place.shown(), &stat, clock::system()), is_new))
    }
}

impl Drop for UploadBeneath {
    fn drop(&mut self) {
        // The kernel deletes the file, which may take a while if it is large.
        if let (Some(file), Ok(runtime)) = (self.file.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn_blocking(move || drop(file));
        }
    }
}
