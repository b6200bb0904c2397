//! A tar, entry by entry.
//!
//! ```text
//! archive    entry*, a block of zeros, anything
//! entry      extension*, header, content, padding to a block of 512 bytes
//! extension  a header of kind x (PAX), L or K (GNU: long name, long target),
//!            g (PAX, about the archive) or V (a label), with its content
//! ```
//!
//! Understood: the formats of V7, ustar, PAX and GNU, sparse files of GNU and of
//! PAX 1.0. What different programs would read differently is refused.

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

/// The most that a header may have in front of it.
const MOST_EXTENSIONS: usize = 16;

/// The largest of those.
const EXTENSION_BYTES: u64 = 1 << 20;

/// What may follow the end mark: archives are padded.
const PADDING: u64 = 16 << 20;

/// Bytes that all headers of an archive may have, whatever its other limits are.
const ANY_HEADERS: u64 = 16 << 20;

/// The most bytes of headers for each byte of a compressed archive. Headers of
/// real trees are compressed to a tenth, those of empty files to a hundredth. The
/// content of files has no such limit: a file of zeros is an honest one.
const MOST_INFLATED: u64 = 1_000;

/// Something in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it goes.
    pub path: TreePath,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits, setuid and the like included.
    pub mode: u32,
    /// When it was last modified.
    pub modified: Timestamp,
    /// Bytes of its content, holes included.
    pub size: u64,
    /// Whether it has extended attributes.
    pub has_attributes: bool,
}

/// What an entry of an archive can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file, whose content is read next.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to anywhere.
    Symlink(Bytes),
    /// Another name of a file, which should have come before.
    HardLink(TreePath),
    /// A named pipe.
    Pipe,
    /// A device.
    Device,
}

/// Reads an archive, plain or compressed by gzip or zstd. After
/// [`Self::next_entry`], reading gives the content of that entry.
pub struct Reader<'a> {
    input: Box<dyn Read + Send + 'a>,
    limits: Limits,
    /// What is left of the limits.
    bytes: u64,
    entries: u64,
    /// Bytes of headers so far, with the content of those that describe others.
    headers: u64,
    /// Bytes of the archive so far, as they came.
    packed: Meter,
    content: Content,
}

/// What is left of the entry that is being read.
#[derive(Default)]
struct Content {
    /// Bytes in the archive.
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
    /// Begins to read.
    pub fn new(from: impl Read + Send + 'a, limits: Limits) -> Result<Self> {
        // Compressed or not, an archive within its limits is no longer than this:
        // empty frames without end are not read to theirs.
        let content = limits.bytes.saturating_add(most_headers(&limits));
        let (from, packed) = Metered::new(from, content.saturating_add(PADDING));
        Ok(Self {
            input: compressed::open(from).map_err(Error::read)?,
            limits,
            bytes: limits.bytes,
            entries: limits.entries,
            headers: 0,
            packed,
            content: Content::default(),
        })
    }

    /// The next entry; `None` after the last, when all has been read.
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

    /// A header; `None` at the end mark.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        self.charge_headers(BLOCK)?;
        self.input
            .read_exact(header.as_mut_bytes())
            .map_err(Error::read)?;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        match fields::has_checksum(&header) {
            true => Ok(Some(header)),
            false => Err(Error::Malformed("a header has the wrong checksum")),
        }
    }

    /// Reads on to where the input ends, so that what checks itself there is
    /// checked.
    fn finish(&mut self) -> Result<()> {
        let rest = self.input.by_ref().take(PADDING + 1);
        match io::copy(&mut { rest }, &mut io::sink()) {
            Ok(length) if length <= PADDING => Ok(()),
            Ok(_) => Err(Error::Malformed("too much follows its end")),
            Err(error) => Err(Error::read(error)),
        }
    }

    /// The content of a header that describes the next one.
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

    /// So many bytes of content, of an entry known to have as many.
    pub(crate) fn whole(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut content = Vec::with_capacity(size as usize);
        let read = self.take(size).read_to_end(&mut content);
        match read.map_err(Error::read)? as u64 == size {
            true => Ok(content),
            false => Err(Error::CutOff),
        }
    }

    /// Passes over what has not been read of an entry.
    fn pass_over(&mut self) -> Result<()> {
        let Content { data, padding, .. } = std::mem::take(&mut self.content);
        // Neither is more than the archive may hold.
        let rest = data.saturating_add(padding);
        let passed = io::copy(&mut self.input.by_ref().take(rest), &mut io::sink());
        match passed.map_err(Error::read)? == rest {
            true => Ok(()),
            false => Err(Error::CutOff),
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
            // What a `D` of GNU lists.
            (EntryKind::File, _) | (_, b'D') => match extensions.size {
                Some(size) => size,
                None => fields::size(header)?,
            },
            // Some programs give links and devices a size, and none a content.
            _ => 0,
        };
        self.charge(data)?;
        self.open(data);
        self.charge_headers(self.content.padding)?;
        let mut size = if kind == EntryKind::File { data } else { 0 };
        if let Some(sparse) = self.sparse(header, &name, &extensions)? {
            // The holes count as what they are when they are read.
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
        match self.headers > ANY_HEADERS.saturating_add(inflated) {
            true => Err(Error::Malformed("its headers are compressed too far")),
            false => Ok(()),
        }
    }

    fn kind(&self, header: &Header, name: &[u8], extensions: &Extensions) -> Result<EntryKind> {
        let target = || match &extensions.target {
            Some(target) => target.clone(),
            None => header.link_name_bytes().unwrap_or_default().into_owned(),
        };
        Ok(match header.entry_type().as_byte() {
            // Before ustar, a slash at the end was all that made a directory.
            b'0' | 0 if name.ends_with(b"/") => EntryKind::Directory,
            b'0' | 0 | b'7' | b'S' => EntryKind::File,
            b'1' => EntryKind::HardLink(match self.path(&target()) {
                Ok(path) if !path.is_root() => path,
                _ => return Err(Error::refused(name, "it links to something outside")),
            }),
            b'2' => {
                let target = target();
                if target.is_empty() || target.len() > MAX_LINK_BYTES || target.contains(&0) {
                    let why = "a link's target has 1 to 4095 bytes and no NUL";
                    return Err(Error::refused(name, why));
                }
                EntryKind::Symlink(target.into())
            }
            b'3' | b'4' => EntryKind::Device,
            b'5' | b'D' => EntryKind::Directory,
            b'6' => EntryKind::Pipe,
            b'M' => return Err(Error::refused(name, "it began in another archive")),
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
        TreePath::new(&path).map_err(|_| Error::refused(name, "its name cannot be kept"))
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

/// Bytes that all headers of an archive may have.
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
