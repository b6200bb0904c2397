//! Items of time trees.

use elevo_core::{Name, Timestamp};

use crate::codec::{DecodeError, Reader, Result, put_number, put_time};
use crate::dir_item::{name_spread, put_name, read_name};
use crate::hash::{Hash, Kind};
use crate::node::sealed::Sealed;
use crate::node::{Item, Totals};

/// A leaf item of a time tree, for the directory entry of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeItem {
    /// Name of the entry.
    pub name: Name,
    /// Times of the entry.
    pub entry: TimeEntry,
}

/// Known times of an entry. At least one of the two is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// Time of the last modification.
    pub modified: Option<Timestamp>,
    /// For a directory: root node of the time tree of its entries.
    pub children: Option<Hash>,
}

mod flag {
    pub(super) const MODIFIED: u8 = 1;
    pub(super) const CHILDREN: u8 = 2;
}

impl Sealed for TimeItem {}

impl Item for TimeItem {
    const KIND: Kind = Kind::Times;
    type Key = Name;

    fn key(&self) -> &Name {
        &self.name
    }

    fn spread(&self) -> u64 {
        name_spread(&self.name)
    }

    fn child_spread(key: &Name, _: &Hash) -> u64 {
        name_spread(key)
    }

    fn totals(&self) -> Totals {
        Totals {
            items: 1,
            count: 0,
            bytes: 0,
        }
    }

    fn totals_fit(_: &Totals, _: bool) -> bool {
        true
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_name(out, &self.name);
        let TimeEntry { modified, children } = self.entry;
        let modified_flag = if modified.is_some() {
            flag::MODIFIED
        } else {
            0
        };
        let children_flag = if children.is_some() {
            flag::CHILDREN
        } else {
            0
        };
        out.push(modified_flag | children_flag);
        if let Some(time) = modified {
            put_time(out, time);
        }
        if let Some(hash) = children {
            out.extend_from_slice(hash.as_bytes());
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self> {
        let name = read_name(reader)?;
        let flags = reader.byte()?;
        if flags == 0 || flags & !(flag::MODIFIED | flag::CHILDREN) != 0 {
            return Err(DecodeError::Tag);
        }
        let has = |flag| flags & flag != 0;
        let modified = has(flag::MODIFIED).then(|| reader.time()).transpose()?;
        let children = has(flag::CHILDREN).then(|| reader.hash()).transpose()?;
        Ok(Self {
            name,
            entry: TimeEntry { modified, children },
        })
    }

    fn encode_key(key: &Name, out: &mut Vec<u8>) {
        put_name(out, key);
    }

    fn decode_key(reader: &mut Reader) -> Result<Name> {
        read_name(reader)
    }

    fn encode_totals(totals: &Totals, out: &mut Vec<u8>) {
        put_number(out, totals.items);
    }

    fn decode_totals(reader: &mut Reader) -> Result<Totals> {
        Ok(Totals {
            items: reader.number()?,
            count: 0,
            bytes: 0,
        })
    }
}
