//! Writes the files of a log.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::FlockOperation;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result, at};
use crate::line::{Head, MAX_LINE_BYTES, NONE, check_line, write_line};
use crate::segment::{self, Lines, Options, Piece};

/// The only writer of a log.
#[derive(Debug)]
pub struct Appender {
    directory: PathBuf,
    options: Options,
    /// The lock on the directory, held as long as the appender exists.
    _lock: File,
    head: Head,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    path: PathBuf,
    /// `None` after a failed write: the file must be truncated to `bytes`
    /// before the next write.
    file: Option<File>,
    bytes: u64,
}

impl Current {
    /// Appends bytes and syncs them. After a failure, `self.bytes` still is the
    /// length of the valid part.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A failed write may have left bytes at the end of the file, which must
        // be removed first.
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().append(true).open(&self.path)?;
                file.set_len(self.bytes)?;
                file.sync_all()?;
                file
            }
        };
        file.write_all(bytes)?;
        file.sync_data()?;
        self.bytes += bytes.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}

impl Appender {
    /// Opens the log in `directory`, and creates one if there is none.
    ///
    /// Bytes that do not continue the chain, for example of an interrupted
    /// write, are moved to a separate file, and a new record in the log reports
    /// the move.
    pub fn open(directory: &Path, options: Options, now: &str) -> Result<Self> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        made.map_err(at(directory))?;
        let lock = File::open(directory).map_err(at(directory))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::InUse(directory.into()))?;
        let mut this = Self {
            directory: directory.into(),
            options,
            _lock: lock,
            head: Head::EMPTY,
            current: None,
        };
        let set_aside = this.go_on()?;
        if let Some((file, bytes)) = set_aside {
            let record = json!({
                "timestamp": now, "level": "error", "event": "audit.set_aside",
                "user": "server", "details": { "file": file, "bytes": bytes },
            });
            let Value::Object(record) = record else {
                unreachable!("the record is an object")
            };
            this.append(&[record])?;
        }
        Ok(this)
    }

    /// Returns the number and the hash of the newest record.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Finds the last valid record, after which the log continues. Moves the
    /// bytes after this record to a separate file, and returns the name and
    /// size of that file. Returns `None` if there are no such bytes.
    fn go_on(&mut self) -> Result<Option<(String, u64)>> {
        let (segments, _) = segment::list(&self.directory)?;
        let mut set_aside = None;
        for (index, (first, path)) in segments.iter().enumerate().rev() {
            let (head, good) = last_good(*first, path)?;
            let length = fs::metadata(path).map_err(at(path))?.len();
            if length > good {
                set_aside = Some(self.set_aside(path, good, index)?);
            }
            if let Some(head) = head {
                self.head = head;
                let file = OpenOptions::new().append(true).open(path);
                self.current = Some(Current {
                    path: path.clone(),
                    file: Some(file.map_err(at(path))?),
                    bytes: good,
                });
                return Ok(set_aside);
            }
            // The segment has no valid record; its bytes are already set aside.
            fs::remove_file(path).map_err(at(path))?;
            self.sync_directory()?;
        }
        Ok(set_aside)
    }

    /// Moves the bytes of a segment from offset `good` on to a separate file.
    fn set_aside(&self, path: &Path, good: u64, number: usize) -> Result<(String, u64)> {
        let mut rest = Vec::new();
        let file = OpenOptions::new().read(true).write(true).open(path);
        let mut file = file.map_err(at(path))?;
        file.seek(SeekFrom::Start(good)).map_err(at(path))?;
        file.read_to_end(&mut rest).map_err(at(path))?;
        let base = path.file_name().unwrap_or_default().to_string_lossy();
        let mut tries = 0..1000;
        let (aside, mut kept) = loop {
            let Some(n) = tries.next() else {
                return Err(Error::Failing);
            };
            let aside = self.directory.join(format!("{base}.aside-{number}-{n}"));
            match new_file(&aside) {
                Ok(file) => break (aside, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&aside)(error)),
            }
        };
        kept.write_all(&rest).map_err(at(&aside))?;
        kept.sync_all().map_err(at(&aside))?;
        self.sync_directory()?;
        file.set_len(good).map_err(at(path))?;
        file.sync_all().map_err(at(path))?;
        let name = aside.file_name().unwrap_or_default();
        Ok((name.to_string_lossy().into_owned(), rest.len() as u64))
    }

    /// Appends records, all or none, and syncs them.
    pub fn append(&mut self, records: &[Map<String, Value>]) -> Result<()> {
        let is_full = |current: &Current| current.bytes >= self.options.segment_bytes;
        if self.current.as_ref().is_none_or(is_full) {
            self.begin_segment()?;
        }
        let Some(current) = &mut self.current else {
            unreachable!("a segment was begun");
        };
        let (mut bytes, mut head) = (Vec::new(), self.head);
        for record in records {
            let is_first = current.bytes == 0 && bytes.is_empty();
            let number = head.number + 1;
            let (line, hash) = write_line(number, &head.hash, is_first, record)
                .map_err(|error| at(&current.path)(error.into()))?;
            if line.len() > MAX_LINE_BYTES {
                return Err(Error::TooLong(line.len()));
            }
            bytes.extend_from_slice(&line);
            head = Head { number, hash };
        }
        current.write(&bytes).map_err(at(&current.path))?;
        self.head = head;
        Ok(())
    }

    fn begin_segment(&mut self) -> Result<()> {
        let path = self.directory.join(segment::name(self.head.number + 1));
        // An earlier attempt that failed to sync may have left an empty file.
        let _ = fs::remove_file(&path);
        let file = new_file(&path).map_err(at(&path))?;
        self.sync_directory()?;
        self.current = Some(Current {
            path,
            file: Some(file),
            bytes: 0,
        });
        Ok(())
    }

    /// Deletes the oldest segments, up to the first segment that was written to
    /// since `before` or that new records go to. Returns the number of deleted
    /// segments.
    pub fn remove_before(&mut self, before: SystemTime) -> Result<usize> {
        let (segments, _) = segment::list(&self.directory)?;
        let mut removed = 0;
        let current = self.current.as_ref().map(|current| current.path.as_path());
        for (_, path) in &segments {
            let metadata = fs::metadata(path).map_err(at(path))?;
            let is_old = metadata.modified().map_err(at(path))? < before;
            // Segments are deleted in order, so that the remaining segments are
            // contiguous.
            if Some(path.as_path()) == current || !is_old {
                break;
            }
            fs::remove_file(path).map_err(at(path))?;
            removed += 1;
        }
        self.sync_directory()?;
        Ok(removed)
    }

    fn sync_directory(&self) -> Result<()> {
        let directory = File::open(&self.directory);
        let synced = directory.and_then(|directory| directory.sync_all());
        synced.map_err(at(&self.directory))
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Returns the last record of a segment before the chain breaks or the segment
/// ends, and the offset of the end of this record.
fn last_good(first: u64, path: &Path) -> Result<(Option<Head>, u64)> {
    let mut lines = Lines::open(path)?;
    let (mut head, mut good): (Option<Head>, u64) = (None, 0);
    while let Some(Piece::Line(line)) = lines.next()? {
        let prev = match head {
            Some(head) => head.hash,
            // The first record states the hash that it follows.
            None => check_line(line, &NONE)
                .ok()
                .and_then(|(line, _)| line.prev)
                .unwrap_or(NONE),
        };
        let Ok((line_head, true)) = check_line(line, &prev).map(|(line, right)| (line.head, right))
        else {
            break;
        };
        if line_head.number != head.map_or(first, |head| head.number + 1) {
            break;
        }
        head = Some(line_head);
        good += line.len() as u64 + 1;
    }
    Ok((head, good))
}
