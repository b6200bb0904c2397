//! Reading objects.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{StoreError, StoreResult};
use elevo_objects::{Hash, Kind, ObjectKey};
use futures::future::try_join_all;

use crate::blocks::StoredFile;
use crate::bucket::FileKey;
use crate::failure::{self, valid};
use crate::pack;
use crate::places::{Epoch, Place, Source};
use crate::store::Inner;

/// Maximum size of a pack that is returned whole for any object in it.
const SMALL_PACK: i32 = 32 << 10;
/// A larger one is returned whole if it has at most this many times the bytes that
/// are asked for.
const WORTH: i32 = 8;

/// The place of an object, as the database knows it.
#[derive(sqlx::FromRow)]
pub(crate) struct Row {
    hash: Vec<u8>,
    kind: i8,
    start: i32,
    size: i32,
    pack: i64,
    base: i64,
    pack_size: i32,
    objects: i32,
    /// Whether all objects of the pack are stored, there or elsewhere.
    is_whole: bool,
    file: Option<Vec<u8>>,
    file_size: Option<i64>,
    /// All bytes of the pack, in the first of its rows.
    whole: Option<Vec<u8>>,
    /// The object.
    part: Option<Vec<u8>>,
    /// Whether no collection is running.
    is_idle: bool,
}

const PLACES: &str = "WITH found AS ( \
        SELECT o.hash, o.kind, o.start, o.size, o.pack, p.base, p.size AS pack_size, p.objects, \
            p.live = p.objects OR p.removals = gc.removals AS is_whole, gc.phase = 'i' AS is_idle, f.key AS file, f.size AS file_size, p.bytes, \
            p.file IS NULL AND (p.size <= $3 OR p.size <= $4 * sum(o.size) OVER (PARTITION BY o.pack)) \
                AS is_worth, \
            row_number() OVER (PARTITION BY o.pack ORDER BY o.hash) = 1 AS is_first \
        FROM store.gc JOIN store.objects AS o ON o.tenant = $1 \
        JOIN store.packs AS p ON p.tenant = o.tenant AND p.id = o.pack \
        LEFT JOIN store.files AS f ON f.id = p.file \
        WHERE gc.tenant = $1 AND o.hash = ANY ($2)) \
    SELECT hash, kind, start, size, pack, base, pack_size, objects, is_whole, is_idle, file, file_size, \
        CASE WHEN is_worth AND is_first THEN bytes END AS whole, \
        CASE WHEN file IS NULL AND NOT is_worth THEN substring(bytes FROM start + 1 FOR size) END AS part \
    FROM found ORDER BY pack, is_first DESC";

impl Row {
    /// The file and the place in it, if the object is in a file.
    fn place_in_file(&self, tenant: i32) -> StoreResult<Option<(StoredFile, Place)>> {
        let Some(key) = &self.file else {
            return Ok(None);
        };
        let file = StoredFile::of_row(tenant, key, self.file_size.unwrap_or_default())?;
        let place = Place {
            source: Source::File(file),
            start: self.base as u64 + self.start as u64,
            size: self.size as u32,
        };
        Ok(Some((file, place)))
    }

    fn index(&self, file: StoredFile) -> Index {
        let size = (self.pack_size, self.objects);
        Index::new(file, (self.pack, self.base), size)
    }
}

/// The objects that a call has found, and those that it must read.
#[derive(Default)]
struct Found {
    objects: HashMap<ObjectKey, Bytes>,
    /// Objects in files, by file.
    files: HashMap<FileKey, (StoredFile, Vec<Wanted>)>,
    /// Indexes to read with them.
    indexes: Vec<Index>,
}

/// An object in a file.
struct Wanted {
    key: ObjectKey,
    range: Range<u64>,
}

/// The index of a pack in a file.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    file: StoredFile,
    pack: i64,
    base: u64,
    range: Range<u64>,
}

impl Index {
    /// `place` is the id of the pack and its first byte, `size` its bytes and
    /// objects.
    pub(crate) fn new(file: StoredFile, place: (i64, i64), size: (i32, i32)) -> Self {
        let base = place.1 as u64;
        Self {
            file,
            pack: place.0,
            base,
            range: pack::index_range(base, size.0 as u32, size.1 as u32),
        }
    }
}

impl Found {
    fn want(&mut self, key: ObjectKey, file: StoredFile, start: u64, size: u32) {
        let range = start..start + u64::from(size);
        let (_, wanted) = self.files.entry(file.key).or_insert((file, Vec::new()));
        wanted.push(Wanted { key, range });
    }

    fn want_indexes(&mut self, indexes: Vec<Index>) {
        for index in &indexes {
            let file = self.files.entry(index.file.key);
            file.or_insert((index.file, Vec::new()));
        }
        self.indexes.extend(indexes);
    }
}

impl Inner {
    pub(crate) async fn get(
        &self,
        tenant: TenantId,
        keys: &[ObjectKey],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let Some(tenant) = self.find_tenant(tenant).await? else {
            return Ok(vec![None; keys.len()]);
        };
        let mut found = Found {
            objects: self.writers.pending(tenant, keys),
            ..Found::default()
        };
        // The second time for a place or a cached block that was wrong.
        for is_last in [false, true] {
            let missing = keys.iter().filter(|key| !found.objects.contains_key(key));
            let missing: HashSet<_> = missing.copied().collect();
            if missing.is_empty() {
                break;
            }
            let epoch = self.node.places.epoch(tenant);
            let unknown = self.find_known(epoch, tenant, missing, &mut found)?;
            if !unknown.is_empty() {
                self.locate(epoch, tenant, &unknown, &mut found).await?;
            }
            let wrong = self.read_files(epoch, &mut found, is_last).await?;
            let Some(wrong) = wrong else { break };
            if is_last {
                return Err(StoreError::Damaged(wrong));
            }
        }
        let objects = &found.objects;
        Ok(keys.iter().map(|key| objects.get(key).cloned()).collect())
    }

    /// Finds objects whose places are known; returns the others.
    fn find_known(
        &self,
        epoch: Epoch,
        tenant: i32,
        keys: HashSet<ObjectKey>,
        found: &mut Found,
    ) -> StoreResult<Vec<ObjectKey>> {
        let places = &self.node.places;
        let mut unknown = Vec::new();
        for key in keys {
            let Some(place) = places.find(epoch, &key) else {
                unknown.push(key);
                continue;
            };
            match place.source {
                Source::File(file) => {
                    found.want(key, file, place.start, place.size);
                    found.want_indexes(places.take_with_root(epoch, &key));
                }
                Source::Pack(id) => match places.pack(tenant, id) {
                    Some(pack) => {
                        let stored = slice(&pack, place.start as usize, place.size as usize);
                        found.objects.insert(key, decode(&key, stored)?);
                    }
                    None => unknown.push(key),
                },
            }
        }
        Ok(unknown)
    }

    /// Asks the database for the places of objects.
    async fn locate(
        &self,
        epoch: Epoch,
        tenant: i32,
        keys: &[ObjectKey],
        found: &mut Found,
    ) -> StoreResult<()> {
        let rows: Vec<Row> = sqlx::query_as(PLACES)
            .bind(tenant)
            .bind(hashes(keys))
            .bind(SMALL_PACK)
            .bind(WORTH)
            .fetch_all(&self.pool)
            .await
            .map_err(failure::of)?;
        let wanted: HashSet<_> = keys.iter().collect();
        let places = &self.node.places;
        // The bytes of the pack of the last row.
        let mut whole = Bytes::new();
        for mut row in rows {
            if let Some(bytes) = row.whole.take() {
                whole = bytes.into();
                self.learn_pack(epoch, tenant, &row, &whole);
            }
            let Some(key) = object_key(&row.hash, row.kind)?.filter(|key| wanted.contains(key))
            else {
                continue;
            };
            if let Some((file, place)) = row.place_in_file(tenant)? {
                found.want(key, file, place.start, place.size);
                if row.is_idle {
                    places.add(epoch, key, place);
                    self.want_index(epoch, &key, &row, file, found);
                }
            } else if let Some(part) = &row.part {
                found.objects.insert(key, decode(&key, part)?);
            } else {
                let stored = slice(&whole, row.start as usize, row.size as usize);
                found.objects.insert(key, decode(&key, stored)?);
            }
        }
        Ok(())
    }

    /// Keeps the pack of a small commit. The next call asks for other nodes of
    /// it.
    fn learn_pack(&self, epoch: Epoch, tenant: i32, row: &Row, bytes: &Bytes) {
        if !row.is_idle || !row.is_whole {
            return;
        }
        if let Ok(entries) = pack::read_index(bytes) {
            let places = &self.node.places;
            places.keep_pack(tenant, row.pack, bytes.clone());
            places.add_pack(epoch, row.pack, (Source::Pack(row.pack), 0), &entries);
        }
    }

    /// Asks for the index of a pack with one of its objects.
    fn want_index(
        &self,
        epoch: Epoch,
        key: &ObjectKey,
        row: &Row,
        file: StoredFile,
        found: &mut Found,
    ) {
        let is_wanted = found.indexes.iter().any(|index| index.pack == row.pack);
        let is_node = key.kind != Kind::Chunk;
        let needs_index = || self.node.places.needs_index(epoch, row.pack, is_node);
        if row.is_whole && !is_wanted && needs_index() {
            found.indexes.push(row.index(file));
        }
    }

    /// Learns the place of the root of a snapshot, and has the index of its pack
    /// and those of packs near it read with it.
    pub(crate) fn learn_root(
        &self,
        epoch: Epoch,
        tenant: i32,
        mut row: Row,
        mut indexes: Vec<Index>,
    ) -> StoreResult<()> {
        let Some(key) = object_key(&row.hash, row.kind)?.filter(|_| row.is_idle) else {
            return Ok(());
        };
        if let Some(bytes) = row.whole.take() {
            self.learn_pack(epoch, tenant, &row, &bytes.into());
        } else if let Some((file, place)) = row.place_in_file(tenant)? {
            let places = &self.node.places;
            places.add(epoch, key, place);
            if row.is_whole {
                indexes.push(row.index(file));
            }
            indexes.retain(|index| places.needs_index(epoch, index.pack, true));
            places.add_with_root(epoch, key, indexes);
        }
        Ok(())
    }

    /// Reads the objects in files. Returns what was wrong with one of them; the
    /// places of such objects are forgotten.
    async fn read_files(
        &self,
        epoch: Epoch,
        found: &mut Found,
        is_fresh: bool,
    ) -> StoreResult<Option<String>> {
        let files = std::mem::take(&mut found.files);
        let indexes = std::mem::take(&mut found.indexes);
        let reads = files.into_values().map(|(file, wanted)| {
            let of_file = indexes.iter().filter(move |index| index.file == file);
            let of_file: Vec<_> = of_file.collect();
            async move {
                let ranges = wanted.iter().map(|one| one.range.clone());
                let ranges = ranges.chain(of_file.iter().map(|index| index.range.clone()));
                let ranges: Vec<_> = ranges.collect();
                let read = self.blocks.read(file, &ranges, is_fresh).await?;
                Ok::<_, StoreError>((file, wanted, of_file, read))
            }
        });
        let mut wrong = None;
        let places = &self.node.places;
        for (file, wanted, indexes, read) in try_join_all(reads).await? {
            let Some(mut read) = read else {
                wanted.iter().for_each(|one| places.remove(epoch, &one.key));
                wrong = Some(format!("the file {} is missing or too short", file.key));
                continue;
            };
            for (index, rows) in indexes.iter().zip(read.split_off(wanted.len())) {
                if let Some(entries) = pack::read_entries(&rows) {
                    let source = (Source::File(file), index.base);
                    places.add_pack(epoch, index.pack, source, &entries);
                }
            }
            for (Wanted { key, range }, stored) in wanted.iter().zip(read) {
                match pack::object(key, &stored) {
                    Some(object) => {
                        found.objects.insert(*key, object);
                    }
                    None => {
                        places.remove(epoch, key);
                        self.blocks.forget(file.key, range);
                        wrong = Some(mismatch(key));
                    }
                }
            }
        }
        Ok(wrong)
    }

    /// Returns which objects are stored.
    pub(crate) async fn find(
        &self,
        tenant: i32,
        keys: &[ObjectKey],
    ) -> StoreResult<HashSet<ObjectKey>> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let rows: Result<Vec<(Vec<u8>, i8)>, _> =
            sqlx::query_as("SELECT hash, kind FROM store.find_1($1, $2, $3)")
                .bind(self.node.id)
                .bind(tenant)
                .bind(hashes(keys))
                .fetch_all(&self.pool)
                .await
                .map_err(failure::of);
        let rows = self.node.note(rows)?;
        let keys = rows.iter().map(|(hash, kind)| object_key(hash, *kind));
        let found: StoreResult<Vec<_>> = keys.collect();
        Ok(found?.into_iter().flatten().collect())
    }
}

fn object_key(hash: &[u8], kind: i8) -> StoreResult<Option<ObjectKey>> {
    let hash = hash.try_into().ok().map(Hash::from_bytes);
    let hash = valid(hash, "the hash of an object")?;
    Ok(pack::kind_of_code(kind).map(|kind| ObjectKey { kind, hash }))
}

fn slice(bytes: &[u8], start: usize, size: usize) -> &[u8] {
    bytes.get(start..start + size).unwrap_or_default()
}

fn decode(key: &ObjectKey, stored: &[u8]) -> StoreResult<Bytes> {
    pack::object(key, stored).ok_or_else(|| StoreError::Damaged(mismatch(key)))
}

fn mismatch(key: &ObjectKey) -> String {
    let ObjectKey { kind, hash } = key;
    format!("{kind:?} {hash}: its stored bytes do not match its hash")
}

pub(crate) fn hashes(keys: &[ObjectKey]) -> Vec<Vec<u8>> {
    keys.iter()
        .map(|key| key.hash.as_bytes().to_vec())
        .collect()
}
