//! Generates the test data of the benchmarks: the same bytes in every run, on every machine.

mod disk;
mod layout;
mod mixed;
mod text;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

pub(crate) use disk::{file_paths, write_to_disk};
pub(crate) use layout::{FileSizes, Layout};
pub(crate) use mixed::Mixed;
pub(crate) use text::noise;

/// Files that can be generated one by one, in any order.
pub(crate) trait Dataset: Sync {
    fn files(&self) -> usize;

    /// The path of file number `index`: names joined by `/`.
    fn path(&self, index: usize) -> String;

    fn content(&self, index: usize) -> Vec<u8>;
}

/// A separate random generator for each `index` of each `stream`. It names its algorithm instead of
/// using the library's default, so that the numbers stay the same.
pub(crate) fn numbers(stream: &str, index: u64) -> Xoshiro256PlusPlus {
    let mut hasher = blake3::Hasher::new();
    hasher.update(stream.as_bytes());
    hasher.update(&index.to_le_bytes());
    Xoshiro256PlusPlus::from_seed(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(data: &dyn Dataset, files: impl IntoIterator<Item = usize>) -> String {
        let mut hasher = blake3::Hasher::new();
        for index in files {
            hasher.update(data.path(index).as_bytes());
            hasher.update(&data.content(index));
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }

    /// The results of two runs are comparable only if these digests never change.
    #[test]
    fn the_same_bytes_are_made_every_time() {
        let ordinary = Layout::new(100_000, FileSizes::Ordinary);
        let short = Layout::new(1_000_000, FileSizes::Short);
        let mixed = Mixed::new(8 << 20);
        let last = mixed.files() - 1;
        let digests = [
            digest(&ordinary, (0..100_000).step_by(997)),
            digest(&short, (0..1_000_000).step_by(9973)),
            digest(&mixed, (0..last).step_by(37).chain([last])),
            blake3::hash(&noise(100_000, "test", 1)).to_hex()[..16].to_owned(),
        ];
        assert_eq!(
            digests,
            [
                "d0d7911eecc56e0a",
                "db0959a3f4ebe406",
                "545b0e2b44656d1b",
                "85883a4cc097a4a1"
            ]
        );
    }

    #[test]
    fn streams_and_indexes_differ() {
        let draw = |stream, index| rand::RngExt::random::<u64>(&mut numbers(stream, index));
        assert_eq!(draw("a", 1), draw("a", 1));
        assert_ne!(draw("a", 1), draw("a", 2));
        assert_ne!(draw("a", 1), draw("b", 1));
    }
}
