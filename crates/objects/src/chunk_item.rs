//! Items of chunk lists.

use crate::chunk::{MAX_CHUNK, MIN_CHUNK};
use crate::codec::{Reader, Result, put_number};
use crate::entry::MAX_FILE_BYTES;
use crate::hash::{Hash, Kind};
use crate::node::sealed::Sealed;
use crate::node::{Item, Totals};

/// A leaf item of a chunk list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkItem {
    /// Hash of the chunk.
    pub hash: Hash,
    /// Length of the chunk, 1 to [`MAX_CHUNK`].
    pub size: u64,
}

impl Sealed for ChunkItem {}

impl Item for ChunkItem {
    const KIND: Kind = Kind::ChunkList;
    type Key = ();

    fn key(&self) -> &() {
        &()
    }

    fn spread(&self) -> u64 {
        self.hash.prefix()
    }

    fn child_spread((): &(), node: &Hash) -> u64 {
        node.prefix()
    }

    fn totals(&self) -> Totals {
        Totals {
            items: 1,
            count: 0,
            bytes: self.size,
        }
    }

    /// Only a file's last chunk may be shorter than [`MIN_CHUNK`].
    fn totals_fit(totals: &Totals, followed: bool) -> bool {
        let Totals { items, bytes, .. } = *totals;
        let least = match items.saturating_mul(MIN_CHUNK as u64) {
            all if followed => all,
            all => all.saturating_sub(MIN_CHUNK as u64).saturating_add(1),
        };
        let most = items.saturating_mul(MAX_CHUNK as u64).min(MAX_FILE_BYTES);
        (least..=most).contains(&bytes)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.size);
        out.extend_from_slice(self.hash.as_bytes());
    }

    fn decode(reader: &mut Reader) -> Result<Self> {
        let size = reader.number_within(1, MAX_CHUNK as u64)?;
        let hash = reader.hash()?;
        Ok(Self { hash, size })
    }

    fn encode_key((): &(), _: &mut Vec<u8>) {}

    fn decode_key(_: &mut Reader) -> Result<()> {
        Ok(())
    }

    fn encode_totals(totals: &Totals, out: &mut Vec<u8>) {
        put_number(out, totals.items);
        put_number(out, totals.bytes);
    }

    fn decode_totals(reader: &mut Reader) -> Result<Totals> {
        Ok(Totals {
            items: reader.number()?,
            count: 0,
            bytes: reader.number()?,
        })
    }
}
