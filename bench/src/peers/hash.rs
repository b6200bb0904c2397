//! The floor of an import: finding every file, reading it and hashing it, and nothing else.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow};

use crate::data::file_paths;

const BUFFER: usize = 1 << 20;

/// BLAKE3 of every file below `directory`; returns how many bytes there were.
pub(crate) fn read_and_hash(directory: &Path, threads: usize) -> Result<u64> {
    let files = file_paths(directory)?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<u64> {
        let mut buffer = vec![0; BUFFER];
        let mut bytes = 0;
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += hash_file(path, &mut buffer)
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
        Ok(bytes)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let bytes = workers.into_iter().map(|worker| {
            let done = worker.join().map_err(|_| anyhow!("a reader panicked"));
            done.flatten()
        });
        bytes.sum()
    })
}

fn hash_file(path: &PathBuf, buffer: &mut [u8]) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    loop {
        match file.read(buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        };
    }
    std::hint::black_box(hasher.finalize());
    Ok(hasher.count())
}
