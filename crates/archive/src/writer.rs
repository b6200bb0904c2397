//! Writes a tar archive entry by entry: ustar, with PAX records for values that
//! do not fit.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;

use elevo_core::Timestamp;
use tar::{Builder, EntryType, Header};

/// The header of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The path, without a slash at the end.
    pub name: &'a [u8],
    /// The kind of the entry.
    pub kind: HeadKind<'a>,
    /// Permission bits.
    pub mode: u32,
    /// Time of the last modification.
    pub modified: Timestamp,
}

/// The kind of an entry to write.
#[derive(Clone, Copy, Debug)]
pub enum HeadKind<'a> {
    /// A file of this number of bytes.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
}

/// Writes an archive. The same entries give the same bytes: the archive does
/// not depend on the machine, the user or the current time.
pub struct Writer<W: Write> {
    out: Builder<W>,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// Largest value of a header's fields for sizes and times.
const MOST: u64 = 0o777_7777_7777;

impl<W: Write> Writer<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        Self {
            out: Builder::new(out),
        }
    }

    /// Writes an entry. The length of `content` must be the size in `head`.
    pub fn append(&mut self, head: &Head<'_>, content: impl Read) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_mode(head.mode & 0o7777);
        header.set_uid(0);
        header.set_gid(0);
        let mut records = Vec::new();
        let (kind, size, target) = match head.kind {
            HeadKind::File(size) => (EntryType::Regular, size, None),
            HeadKind::Directory => (EntryType::Directory, 0, None),
            HeadKind::Symlink(target) => (EntryType::Symlink, 0, Some(target)),
        };
        header.set_entry_type(kind);
        let mut name = head.name.to_vec();
        if kind.is_dir() {
            name.push(b'/');
        }
        if !fits(&name) || header.set_path(OsStr::from_bytes(&name)).is_err() {
            put_start(&mut header.as_old_mut().name, &name);
            records.push(("path", name));
        }
        if let Some(target) = target
            && !(fits(target) && header.set_link_name_literal(target).is_ok())
        {
            put_start(&mut header.as_old_mut().linkname, target);
            records.push(("linkpath", target.to_vec()));
        }
        header.set_size(size.min(MOST));
        if size > MOST {
            records.push(("size", size.to_string().into_bytes()));
        }
        let seconds = u64::try_from(head.modified.seconds()).unwrap_or_default();
        header.set_mtime(seconds.min(MOST));
        if Timestamp::new(seconds.min(MOST) as i64, 0) != Some(head.modified) {
            records.push(("mtime", time(head.modified).into_bytes()));
        }
        self.describe(records)?;
        header.set_cksum();
        self.out.append(&header, content)
    }

    /// Writes the PAX records of the next header.
    fn describe(&mut self, mut records: Vec<(&str, Vec<u8>)>) -> io::Result<()> {
        let is_text = |(_, value): &(&str, Vec<u8>)| std::str::from_utf8(value).is_ok();
        if !records.iter().all(is_text) {
            records.insert(0, ("hdrcharset", b"BINARY".to_vec()));
        }
        let records = records.iter().map(|(key, value)| (*key, value.as_slice()));
        self.out.append_pax_extensions(records)
    }

    /// Ends the archive.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.out.into_inner()?;
        out.flush()?;
        Ok(out)
    }
}

/// Whether every program reads these bytes in the same way.
const fn fits(text: &[u8]) -> bool {
    text.is_ascii()
}

/// Writes the part that fits, for programs without support for PAX.
fn put_start(field: &mut [u8], text: &[u8]) {
    let length = field.len().min(text.len());
    field[..length].copy_from_slice(&text[..length]);
}

fn time(time: Timestamp) -> String {
    let (seconds, nanos) = (time.seconds(), time.nanos());
    match nanos {
        0 => seconds.to_string(),
        _ if seconds >= 0 => format!("{seconds}.{nanos:09}"),
        // -1.5 seconds are stored as -2 seconds and half a second of
        // nanoseconds.
        _ => format!("-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanos),
    }
}
