//! Exports a snapshot as an archive.
//!
//! One thread walks the tree and fetches the content of small files, some
//! megabytes at a time, while another writes the previous round. Larger files
//! are read as they are written.

mod layer;
mod plain;

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bytes::{Buf, Bytes};
use elevo_core::{Timestamp, TreePath};
use elevo_engine::{ChunkReader, Progress, Repository, Workers};
use elevo_objects::{Content, Entry, Hash, Snapshot};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::writer::{Head, HeadKind, Writer};
use layer::Layer;
use plain::Plain;

/// Maximum size of a round.
const ROUND_BYTES: u64 = 4 << 20;
const ROUND_ITEMS: usize = 2048;
/// Number of files fetched by one call.
const SLICE: usize = 128;

/// The content of the archive.
#[derive(Clone, Debug)]
pub enum ExportContent {
    /// The whole tree.
    Plain,
    /// The differences from another snapshot, as a layer of an image.
    Layer(Box<Snapshot>),
}

/// Counts of the written data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files, directories and links, and the whiteouts of a layer.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
}

/// An export of a snapshot.
#[derive(Debug)]
pub struct Export<'a> {
    /// The repository of the snapshot.
    pub repository: &'a Repository,
    /// The snapshot to export.
    pub snapshot: &'a Snapshot,
    /// The path to export. If it is a directory, the archive has the content of
    /// the directory; otherwise it has one entry, named like the file or link.
    pub path: &'a TreePath,
    /// The form of the archive.
    pub form: &'a ExportContent,
    /// Number of threads that fetch; at least 1.
    pub threads: usize,
}

/// An entry to be written.
struct Item {
    name: TreePath,
    entry: Entry,
    modified: Timestamp,
    /// Its content, if it is a single chunk.
    chunk: Option<Bytes>,
}

/// A source of entries.
trait Source: Send {
    fn next(&mut self, workers: &Workers) -> Result<Option<Item>>;
}

impl Export<'_> {
    /// Writes the archive, without entries for which `shows` returns false and
    /// everything below them. `shows` gets a path of the snapshot, and whether
    /// it is a directory.
    ///
    /// Blocking.
    pub fn write(
        &self,
        shows: impl FnMut(&TreePath, bool) -> bool + Send,
        out: impl Write,
        progress: &Progress,
    ) -> Result<Exported> {
        let workers = Workers::start(self.threads).map_err(Error::Write)?;
        let source: Box<dyn Source + '_> = match self.form {
            ExportContent::Plain => Box::new(workers.wait(Plain::open(self, shows))?),
            ExportContent::Layer(base) => Box::new(workers.wait(Layer::open(self, base, shows))?),
        };
        let (rounds, fetched) = sync_channel(1);
        thread::scope(|scope| {
            let workers = &workers;
            let fetcher = scope.spawn(move || self.fetch(source, workers, &rounds));
            let written = self.write_rounds(fetched, workers, out, progress);
            let all_fetched = match fetcher.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            // If fetching failed, the archive is incomplete.
            all_fetched.and(written)
        })
    }

    fn fetch(
        &self,
        mut source: Box<dyn Source + '_>,
        workers: &Workers,
        rounds: &SyncSender<Vec<Item>>,
    ) -> Result<()> {
        loop {
            let mut round = Vec::new();
            let mut bytes = 0;
            while bytes < ROUND_BYTES && round.len() < ROUND_ITEMS {
                let Some(item) = source.next(workers)? else {
                    break;
                };
                bytes += only_chunk(&item.entry).map_or(0, |(_, size)| size);
                round.push(item);
            }
            if round.is_empty() {
                return Ok(());
            }
            let fill = |slice: &mut [Item]| self.fill(slice, workers);
            workers.run(|| round.par_chunks_mut(SLICE).try_for_each(fill))?;
            if rounds.send(round).is_err() {
                return Ok(());
            }
        }
    }

    /// Fetches the chunks of some entries in one call.
    fn fill(&self, items: &mut [Item], workers: &Workers) -> Result<()> {
        let hash = |item: &Item| only_chunk(&item.entry).map(|(hash, _)| hash);
        let wanted: Vec<Hash> = items.iter().filter_map(hash).collect();
        let chunks = workers.wait(self.repository.chunks(&wanted))?;
        let wanting = items.iter_mut().filter(|item| hash(item).is_some());
        for (item, chunk) in wanting.zip(chunks) {
            item.chunk = Some(chunk);
        }
        Ok(())
    }

    fn write_rounds(
        &self,
        rounds: Receiver<Vec<Item>>,
        workers: &Workers,
        out: impl Write,
        progress: &Progress,
    ) -> Result<Exported> {
        let mut writer = Writer::new(io::BufWriter::with_capacity(256 << 10, out));
        let mut done = Exported::default();
        for item in rounds.into_iter().flatten() {
            let bytes = self.write_item(&mut writer, &item, workers)?;
            done.entries += 1;
            done.bytes += bytes;
            progress.add(1, bytes);
        }
        writer.finish().map_err(Error::Write)?;
        Ok(done)
    }

    fn write_item(
        &self,
        writer: &mut Writer<impl Write>,
        item: &Item,
        workers: &Workers,
    ) -> Result<u64> {
        let chunk = item.chunk.as_deref().unwrap_or_default();
        let (kind, mode, size) = match &item.entry {
            Entry::Directory { mode, .. } => (HeadKind::Directory, mode.bits(), 0),
            Entry::Link(_) => (HeadKind::Symlink(chunk), 0o777, 0),
            Entry::File { mode, content } => {
                let size = content.size();
                (HeadKind::File(size), mode.bits(), size)
            }
        };
        let head = Head {
            name: item.name.as_bytes(),
            kind,
            mode,
            modified: item.modified,
        };
        let written = match &item.entry {
            Entry::File {
                content: content @ Content::List { .. },
                ..
            } => {
                let opened = ChunkReader::open(self.repository, content, 0);
                let (chunks, _) = workers.wait(opened)?;
                let chunk = Bytes::new();
                let mut content = Chunks {
                    chunks,
                    chunk,
                    workers,
                    failed: None,
                };
                let written = writer.append(&head, content.by_ref());
                if let Some(failed) = content.failed {
                    return Err(failed.into());
                }
                written
            }
            Entry::File { .. } => writer.append(&head, chunk),
            _ => writer.append(&head, io::empty()),
        };
        written.map_err(Error::Write)?;
        Ok(size)
    }
}

/// The chunk of a link, or of a file that is a single chunk.
fn only_chunk(entry: &Entry) -> Option<(Hash, u64)> {
    match entry {
        Entry::Link(link) => Some((link.hash, link.size)),
        Entry::File {
            content: Content::Chunk { hash, size },
            ..
        } => Some((*hash, *size)),
        _ => None,
    }
}

/// The content of a large file.
struct Chunks<'a> {
    chunks: ChunkReader,
    chunk: Bytes,
    workers: &'a Workers,
    failed: Option<elevo_engine::Error>,
}

impl Read for Chunks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() {
            match self.workers.wait(self.chunks.next()) {
                Ok(chunk) => self.chunk = chunk.unwrap_or_default(),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(io::Error::other("the store failed"));
                }
            }
        }
        let length = into.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}
