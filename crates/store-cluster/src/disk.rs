//! A cache of blocks in memory and on disk, which survives restarts.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use foyer::{
    BlockEngineConfig, Code, DeviceBuilder, Error, FsDeviceBuilder, HybridCache,
    HybridCacheBuilder, HybridCachePolicy, PsyncIoEngineConfig, S3FifoConfig,
};

use crate::bucket::FileKey;
use crate::cache::{BLOCK_BYTES, BlockCache, BlockKey};

/// Name of the file that a process locks while it uses a directory.
const LOCK: &str = "lock";
/// Size of the files of the cache.
const FILE_BYTES: usize = 16 << 20;
/// Smallest cache on disk: a few of its files.
pub(crate) const MIN_DISK_BYTES: u64 = 8 * FILE_BYTES as u64;

/// A block as a value of the cache.
#[derive(Debug)]
struct Block(Bytes);

impl Code for Block {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        let length = self.0.len() as u32;
        writer
            .write_all(&length.to_le_bytes())
            .and_then(|()| writer.write_all(&self.0))
            .map_err(Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let mut length = [0; 4];
        reader.read_exact(&mut length).map_err(Error::io_error)?;
        let length = u32::from_le_bytes(length);
        if u64::from(length) > BLOCK_BYTES {
            return Err(Error::io_error(ErrorKind::InvalidData.into()));
        }
        let mut bytes = vec![0; length as usize];
        reader.read_exact(&mut bytes).map_err(Error::io_error)?;
        Ok(Self(bytes.into()))
    }

    fn estimated_size(&self) -> usize {
        4 + self.0.len()
    }
}

impl Code for BlockKey {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer
            .write_all(&self.file.0)
            .and_then(|()| writer.write_all(&self.number.to_le_bytes()))
            .map_err(Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let (mut file, mut number) = ([0; 16], [0; 4]);
        reader
            .read_exact(&mut file)
            .and_then(|()| reader.read_exact(&mut number))
            .map_err(Error::io_error)?;
        Ok(Self {
            file: FileKey(file),
            number: u32::from_le_bytes(number),
        })
    }

    fn estimated_size(&self) -> usize {
        20
    }
}

/// A cache in memory and on disk.
#[derive(Debug)]
pub(crate) struct Disk {
    cache: HybridCache<BlockKey, Block>,
    /// Locked until the process ends.
    _lock: File,
}

impl Disk {
    /// Opens the cache of a directory, which no other process may use.
    pub(crate) async fn open(directory: &Path, memory: u64, disk: u64) -> io::Result<Self> {
        // It has the files of all tenants.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let lock = File::create(directory.join(LOCK))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(ErrorKind::ResourceBusy, "another process uses it")
            }
            TryLockError::Error(error) => error,
        })?;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let device = FsDeviceBuilder::new(directory.join("blocks"))
            .with_capacity(size(disk.max(MIN_DISK_BYTES)))
            .build()
            .map_err(io::Error::other)?;
        let cache = HybridCacheBuilder::new()
            .with_name("elevo-store")
            .with_policy(HybridCachePolicy::WriteOnInsertion)
            .memory(size(memory))
            // The default, LRU, has hung under loads of equal keys.
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(|_: &BlockKey, block: &Block| block.0.len())
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(BlockEngineConfig::new(device).with_block_size(FILE_BYTES))
            .build()
            .await
            .map_err(io::Error::other)?;
        Ok(Self { cache, _lock: lock })
    }
}

#[async_trait]
impl BlockCache for Disk {
    fn has(&self, key: &BlockKey) -> bool {
        self.cache.contains(key)
    }

    async fn get(&self, key: &BlockKey) -> Option<Bytes> {
        match self.cache.get(key).await {
            Ok(found) => found.map(|entry| entry.value().0.clone()),
            Err(error) => {
                // The same as a block that is not there.
                tracing::warn!(%error, "cannot read the cache of the store");
                None
            }
        }
    }

    fn put(&self, key: BlockKey, block: Bytes) {
        self.cache.insert(key, Block(block));
    }

    fn remove(&self, key: &BlockKey) {
        self.cache.remove(key);
    }

    async fn close(&self) {
        if let Err(error) = self.cache.close().await {
            tracing::warn!(%error, "cannot close the cache of the store");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::cache::Memory;

    fn key(number: u32) -> BlockKey {
        BlockKey {
            file: FileKey([7; 16]),
            number,
        }
    }

    fn block(number: u32) -> Bytes {
        vec![number as u8; BLOCK_BYTES as usize - number as usize].into()
    }

    async fn opened(directory: &Path) -> Disk {
        let disk = Disk::open(directory, 8 << 20, MIN_DISK_BYTES).await;
        disk.unwrap()
    }

    async fn assert_keeps_blocks(cache: &dyn BlockCache) {
        assert!(!cache.has(&key(1)));
        assert!(cache.get(&key(1)).await.is_none());
        cache.put(key(1), block(1));
        cache.put(key(2), block(2));
        assert!(cache.has(&key(1)));
        assert!(cache.get(&key(1)).await == Some(block(1)));
        cache.remove(&key(1));
        assert!(cache.get(&key(2)).await == Some(block(2)));
    }

    #[tokio::test]
    async fn both_caches_keep_blocks() {
        assert_keeps_blocks(&Memory::new(8 << 20)).await;
        let directory = tempfile::tempdir().unwrap();
        assert_keeps_blocks(&opened(directory.path()).await).await;
    }

    #[tokio::test]
    async fn a_cache_in_memory_has_a_maximum_size() {
        let cache = Memory::new(8 << 20);
        for number in 0..100 {
            cache.put(key(number), block(number));
        }
        let kept = (0..100).filter(|number| cache.has(&key(*number))).count();
        assert!((1..=32).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn blocks_on_disk_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let cache = opened(directory.path()).await;
        for number in 0..100 {
            cache.put(key(number), block(number));
        }
        cache.close().await;
        drop(cache);
        let cache = opened(directory.path()).await;
        let mut kept = 0;
        for number in 0..100 {
            if let Some(found) = cache.get(&key(number)).await {
                assert!(found == block(number), "{number}");
                kept += 1;
            }
        }
        assert!(kept > 50, "{kept}");
    }

    #[tokio::test]
    async fn a_directory_has_one_process_and_one_user() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("cache");
        let first = opened(&directory).await;
        let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let second = Disk::open(&directory, 8 << 20, MIN_DISK_BYTES).await;
        assert_eq!(second.unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(first);
    }

    /// No call waits for ever, and what is returned is wrong at most in its
    /// bytes.
    #[tokio::test]
    async fn a_damaged_disk_loses_blocks_only() {
        let directory = tempfile::tempdir().unwrap();
        let cache = opened(directory.path()).await;
        for number in 0..100 {
            cache.put(key(number), block(number));
        }
        cache.close().await;
        drop(cache);
        for entry in walk(directory.path()) {
            let mut bytes = std::fs::read(&entry).unwrap();
            bytes
                .iter_mut()
                .step_by(4099)
                .for_each(|byte| *byte ^= 0x55);
            std::fs::write(&entry, bytes).unwrap();
        }
        let reads = async {
            let cache = opened(directory.path()).await;
            for number in 0..100 {
                let found = cache.get(&key(number)).await;
                assert!(found.is_none_or(|found| found.len() as u64 <= BLOCK_BYTES));
                if !cache.has(&key(number)) {
                    cache.put(key(number), block(number));
                }
            }
        };
        let minute = Duration::from_secs(60);
        tokio::time::timeout(minute, reads).await.unwrap();
    }

    fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(directory).unwrap();
        let of = |entry: std::fs::DirEntry| match entry.path() {
            path if path.is_dir() => walk(&path),
            path => vec![path],
        };
        entries.map(Result::unwrap).flat_map(of).collect()
    }
}
