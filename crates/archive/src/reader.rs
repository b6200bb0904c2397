//! Reads a tar archive entry by entry.
//!
//! ```text
//! archive    entry*, a block of zeros, anything
//! entry      extension*, header, content, padding to a block of 512 bytes
//! extension  a header of kind x (PAX), L or K (GNU: long name, long target),
//!            g (PAX, about the archive) or V (a label), with its content
//! ```
//!
//! Supports the formats V7, ustar, PAX and GNU, and sparse files of GNU and of
//! PAX 1.0. Rejects data that programs interpret in different ways.

mod extensions;
mod fields;
mod sparse;

use std::io::{self, Read};

use bytes::Bytes;
use elevo_core::{Timestamp, TreePath};
use elevo_objects::MAX_LINK_BYTES;
use tar::Header;

use crate::compressed;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::meter::{Meter, Metered};
use extensions::{Extensions, check_global};
use sparse::Sparse;

const BLOCK: u64 = 512;

/// Maximum number of extensions of a header.
const MOST_EXTENSIONS: usize = 16;

/// Maximum size of an extension.
const EXTENSION_BYTES: u64 = 1 << 20;

/// Maximum bytes after the end mark, where programs pad their archives.
const PADDING: u64 = 16 << 20;

/// Bytes of headers that any archive may have, in addition to the bytes that
/// its limits and its compressed size allow.
const ANY_HEADERS: u64 = 16 << 20;

/// Maximum bytes of headers for each byte of a compressed archive. The headers
/// of real trees compress to a tenth of their size, those of empty files to a
/// hundredth. The content of files has no such limit, because a file of zeros
/// is legitimate.
const MOST_INFLATED: u64 = 1_000;

/// An entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path in the tree.
    pub path: TreePath,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Permission bits, including setuid and similar bits.
    pub mode: u32,
    /// Time of the last modification.
    pub modified: Timestamp,
    /// Size of its content in bytes, including holes.
    pub size: u64,
    /// Whether it has extended attributes.
    pub has_attributes: bool,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file, whose content is read next.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to anywhere.
    Symlink(Bytes),
    /// Another name of a file, which should come earlier in the archive.
    HardLink(TreePath),
    /// A named pipe.
    Pipe,
    /// A device.
    Device,
}

/// Reads an archive, plain or compressed with gzip or zstd. After
/// [`Self::next_entry`], [`Read`] returns the content of that entry.
pub struct Reader<'a> {
    input: Box<dyn Read + Send + 'a>,
    limits: Limits,
    /// Bytes and entries that the limits still allow.
    bytes: u64,
    entries: u64,
    /// Bytes of headers so far, including the content of extensions.
    headers: u64,
    /// Compressed bytes of the archive so far.
    packed: Meter,
    content: Content,
}

/// The unread rest of the current entry.
#[derive(Default)]
struct Content {
    /// Unread bytes that the archive stores for the entry, without padding.
    data: u64,
    padding: u64,
    sparse: Option<Sparse>,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    /// Opens an archive.
    pub fn new(from: impl Read + Send + 'a, limits: Limits) -> Result<Self> {
        // An archive within its limits is at most this long, compressed or not.
        // The bound stops an endless sequence of empty frames.
        let content = limits.bytes.saturating_add(most_headers(&limits));
        let (from, packed) = Metered::new(from, content.saturating_add(PADDING));
        Ok(Self {
            input: compressed::decompress(from).map_err(Error::read)?,
            limits,
            bytes: limits.bytes,
            entries: limits.entries,
            headers: 0,
            packed,
            content: Content::default(),
        })
    }

    /// Returns the next entry; `None` after the last, when the input has been
    /// read to its end.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        self.pass_over()?;
        let mut extensions = Extensions::default();
        for _ in 0..=MOST_EXTENSIONS {
            let Some(header) = self.header()? else {
                if !extensions.is_empty() {
                    return Err(Error::CutOff);
                }
                self.finish()?;
                return Ok(None);
            };
            match header.entry_type().as_byte() {
                b'x' => extensions.read_pax(&self.extension(&header)?)?,
                b'L' => extensions.set_name(self.extension(&header)?),
                b'K' => extensions.set_target(self.extension(&header)?),
                b'g' => check_global(&self.extension(&header)?)?,
                b'V' => drop(self.extension(&header)?),
                _ => return self.entry(&header, extensions).map(Some),
            }
        }
        Err(Error::Malformed("too many headers describe one entry"))
    }

    /// Reads a header; `None` at the end mark.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        self.charge_headers(BLOCK)?;
        self.input
            .read_exact(header.as_mut_bytes())
            .map_err(Error::read)?;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if fields::has_checksum(&header) {
            Ok(Some(header))
        } else {
            Err(Error::Malformed("a header has the wrong checksum"))
        }
    }

    /// Reads to the end of the input, so that a checksum at its end is
    /// verified.
    fn finish(&mut self) -> Result<()> {
        let rest = self.input.by_ref().take(PADDING + 1);
        match io::copy(&mut { rest }, &mut io::sink()) {
            Ok(length) if length <= PADDING => Ok(()),
            Ok(_) => Err(Error::Malformed("too much data follows its end")),
            Err(error) => Err(Error::read(error)),
        }
    }

    /// Reads the content of an extension.
    fn extension(&mut self, header: &Header) -> Result<Vec<u8>> {
        let size = fields::size(header)?;
        if size > EXTENSION_BYTES {
            return Err(Error::Malformed("a header is too long"));
        }
        self.charge_headers(size.next_multiple_of(BLOCK))?;
        self.open(size);
        let content = self.whole(size)?;
        self.pass_over()?;
        Ok(content)
    }

    fn open(&mut self, size: u64) {
        self.content = Content {
            data: size,
            padding: size.wrapping_neg() % BLOCK,
            sparse: None,
        };
    }

    /// Reads the next `size` bytes of the current content. Fails if it has
    /// fewer.
    pub(crate) fn whole(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut content = Vec::with_capacity(size as usize);
        let read = self.take(size).read_to_end(&mut content);
        if read.map_err(Error::read)? as u64 == size {
            Ok(content)
        } else {
            Err(Error::CutOff)
        }
    }

    /// Skips the unread rest of an entry.
    fn pass_over(&mut self) -> Result<()> {
        let Content { data, padding, .. } = std::mem::take(&mut self.content);
        // Both numbers were counted against the limits of the archive, so this
        // reads a bounded number of bytes.
        let rest = data.saturating_add(padding);
        let passed = io::copy(&mut self.input.by_ref().take(rest), &mut io::sink());
        if passed.map_err(Error::read)? == rest {
            Ok(())
        } else {
            Err(Error::CutOff)
        }
    }

    fn entry(&mut self, header: &Header, extensions: Extensions) -> Result<Entry> {
        self.entries = self
            .entries
            .checked_sub(1)
            .ok_or(Error::TooMany(self.limits.entries))?;
        let name = match &extensions.name {
            Some(name) => name.clone(),
            None => header.path_bytes().into_owned(),
        };
        let path = self.path(&name)?;
        let kind = self.kind(header, &name, &extensions)?;
        let data = match (&kind, header.entry_type().as_byte()) {
            // A `D` of GNU has a list of names as its content.
            (EntryKind::File, _) | (_, b'D') => match extensions.size {
                Some(size) => size,
                None => fields::size(header)?,
            },
            // Some programs set a size for links and devices, which have no
            // content.
            _ => 0,
        };
        self.charge(data)?;
        self.open(data);
        self.charge_headers(self.content.padding)?;
        let mut size = if kind == EntryKind::File { data } else { 0 };
        if let Some(sparse) = self.sparse(header, &name, &extensions)? {
            // Holes count with their full size.
            size = sparse.size();
            self.charge(size.saturating_sub(data))?;
            self.content.sparse = Some(sparse);
        }
        Ok(Entry {
            path,
            kind,
            mode: fields::mode(header)?,
            modified: match extensions.modified {
                Some(modified) => modified,
                None => fields::modified(header)?,
            },
            size,
            has_attributes: extensions.has_attributes,
        })
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        let rest = self.bytes.checked_sub(bytes);
        self.bytes = rest.ok_or(Error::TooLarge(self.limits.bytes))?;
        Ok(())
    }

    fn charge_headers(&mut self, bytes: u64) -> Result<()> {
        self.headers = self.headers.saturating_add(bytes);
        if self.headers > most_headers(&self.limits) {
            return Err(Error::TooLarge(self.limits.bytes));
        }
        let inflated = self.packed.read().saturating_mul(MOST_INFLATED);
        if self.headers > ANY_HEADERS.saturating_add(inflated) {
            Err(Error::Malformed(
                "the compression ratio of its headers is too high",
            ))
        } else {
            Ok(())
        }
    }

    fn kind(&self, header: &Header, name: &[u8], extensions: &Extensions) -> Result<EntryKind> {
        let target = || match &extensions.target {
            Some(target) => target.clone(),
            None => header.link_name_bytes().unwrap_or_default().into_owned(),
        };
        Ok(match header.entry_type().as_byte() {
            // Before ustar, only a slash at the end marked a directory.
            b'0' | 0 if name.ends_with(b"/") => EntryKind::Directory,
            b'0' | 0 | b'7' | b'S' => EntryKind::File,
            b'1' => EntryKind::HardLink(match self.path(&target()) {
                Ok(path) if !path.is_root() => path,
                _ => return Err(Error::refused(name, "its target is outside the archive")),
            }),
            b'2' => {
                let target = target();
                if target.is_empty() || target.len() > MAX_LINK_BYTES || target.contains(&0) {
                    let why = "the target of a link must have 1 to 4095 bytes and no NUL";
                    return Err(Error::refused(name, why));
                }
                EntryKind::Symlink(target.into())
            }
            b'3' | b'4' => EntryKind::Device,
            b'5' | b'D' => EntryKind::Directory,
            b'6' => EntryKind::Pipe,
            b'M' => {
                return Err(Error::refused(
                    name,
                    "it continues a file of another archive",
                ));
            }
            _ => return Err(Error::refused(name, "it is of an unknown kind")),
        })
    }

    fn path(&self, name: &[u8]) -> Result<TreePath> {
        if name.starts_with(b"/") {
            return Err(Error::refused(name, "its name is absolute"));
        }
        let mut path = Vec::with_capacity(name.len());
        let mut depth = 0;
        for part in name.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => continue,
                b".." => return Err(Error::refused(name, "its name leads out of the archive")),
                _ if part.len() > self.limits.name_bytes => {
                    return Err(Error::refused(name, "its name is too long"));
                }
                _ => depth += 1,
            }
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        if depth > self.limits.depth {
            return Err(Error::refused(name, "it is nested too deeply"));
        }
        TreePath::new(&path).map_err(|_| Error::refused(name, "its name is not valid in a tree"))
    }

    fn sparse(
        &mut self,
        header: &Header,
        name: &[u8],
        extensions: &Extensions,
    ) -> Result<Option<Sparse>> {
        if header.entry_type().is_gnu_sparse() {
            return Sparse::of_gnu(header, self.content.data, &mut self.input, name).map(Some);
        }
        let Some(size) = extensions.sparse_size(name)? else {
            return Ok(None);
        };
        let map_bytes = &mut self.content.data;
        Sparse::of_pax(size, map_bytes, &mut self.input, name).map(Some)
    }
}

/// Maximum bytes of all headers of an archive.
fn most_headers(limits: &Limits) -> u64 {
    limits.bytes.saturating_add(ANY_HEADERS)
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut length = (into.len() as u64).min(self.content.data) as usize;
        if let Some(sparse) = &mut self.content.sparse {
            match sparse.next(into.len()) {
                sparse::Part::Hole(zeros) => {
                    into[..zeros].fill(0);
                    return Ok(zeros);
                }
                sparse::Part::Data(most) => length = length.min(most),
            }
        }
        if length == 0 {
            return Ok(0);
        }
        let read = self.input.read(&mut into[..length])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content.data -= read as u64;
        if let Some(sparse) = &mut self.content.sparse {
            sparse.advance(read as u64);
        }
        Ok(read)
    }
}
