//! Imports an archive into a tree of a store.
//!
//! One thread reads the archive in batches of some megabytes, while others hash
//! the previous batch, store it, and put its entries into the tree. The part of
//! the tree in memory is stored from time to time. So an import needs some tens
//! of megabytes of memory for an archive of any size, with its entries in any
//! order.

mod batch;
mod layer;

use std::io::Read;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;
use elevo_engine::{Loss, Progress, Repository, StateTree, Workers};
use elevo_objects::{Chunker, Hash, Tree};

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::reader::{EntryKind, Reader};
use batch::{Batch, Builder, Piece};

/// Maximum size of a file that is passed on as a whole; a larger file is passed
/// on in chunks.
const WHOLE: u64 = 1 << 20;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Limits of the archive.
    pub limits: Limits,
    /// The tree below a layer of an image; empty for the first layer. `None`
    /// for a plain archive, in which whiteout names have no meaning.
    pub base: Option<StateTree>,
    /// Number of threads that hash; at least 1.
    pub threads: usize,
}

/// An imported archive. All of it is stored, and nothing refers to it until
/// [`StateTree::commit`].
#[derive(Debug)]
pub struct Received {
    /// The tree.
    pub state: StateTree,
    /// The root of the stored tree.
    pub tree: Tree,
    /// The stored times of the tree.
    pub times: Option<Hash>,
    /// Properties that could not be kept, one entry for each kind.
    pub losses: Vec<Loss>,
    /// Number of entries in the archive, without those below `.elevo`.
    pub entries: u64,
}

/// Reads an archive, plain or compressed with gzip or zstd, into the store. Of
/// two entries with the same name, the later one wins.
///
/// Blocking.
pub fn import(
    repository: &Repository,
    from: impl Read + Send,
    options: &ImportOptions,
    progress: &Progress,
) -> Result<Received> {
    let mut reader = Reader::new(from, options.limits)?;
    let workers = Workers::start(options.threads).map_err(Error::Read)?;
    let base = options.base.as_ref();
    let mut builder = Builder::new(repository, &workers, base, progress);
    let (batches, filled) = sync_channel::<Batch>(1);
    let (read, built) = thread::scope(|scope| {
        let building = scope.spawn(|| {
            let mut filled = filled.into_iter();
            let built = filled.try_for_each(|batch| builder.add(batch));
            built.map(|()| builder)
        });
        let read = fill(&mut reader, batches);
        let built = building.join();
        (
            read,
            built.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    // If building failed, reading stopped because of it, so its error comes
    // first.
    let builder = built?;
    let entries = read?;
    let (state, losses, left_out) = builder.finish();
    let state = match base {
        Some(base) => workers.wait(layer::apply(&state, base))?,
        None => state,
    };
    let (tree, times) = workers.wait(state.settle())?;
    Ok(Received {
        state,
        tree,
        times,
        losses,
        entries: entries - left_out,
    })
}

/// Reads the archive to its end in batches. Returns the number of entries.
fn fill(reader: &mut Reader<'_>, batches: SyncSender<Batch>) -> Result<u64> {
    let mut batch = Batch::default();
    let mut count = 0;
    let hand_on = |batch: &mut Batch| {
        let full = std::mem::take(batch);
        batches.send(full).is_ok()
    };
    while let Some(entry) = reader.next_entry()? {
        count += 1;
        let size = entry.size;
        if entry.kind == EntryKind::File && size > WHOLE {
            for chunk in Chunker::new(reader.by_ref()) {
                batch.push(Piece::Chunk(chunk.map_err(Error::read)?));
                if batch.is_full() && !hand_on(&mut batch) {
                    return Ok(count);
                }
            }
            batch.push(Piece::Large(entry));
        } else {
            let content = Bytes::from(reader.whole(size)?);
            batch.push(Piece::Whole(entry, content));
        }
        if batch.is_full() && !hand_on(&mut batch) {
            return Ok(count);
        }
    }
    hand_on(&mut batch);
    Ok(count)
}
