//! A directory with files of many kinds, with a given total size.
//!
//! ```text
//! share   what                       size of each
//!  35 %   program text               200 B to 32 KB, 6 KB on average
//!  15 %   JSON                       1 to 64 KB
//!  20 %   incompressible binaries    4 KB to 512 KB
//!  15 %   large logs (text)          2 % of all each: 20 MB of a GiB
//!  15 %   large incompressible       4 % of all each: 40 MB of a GiB
//! ```

use rand::RngExt;

use super::{Dataset, numbers, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Source,
    Json,
    Binary,
    Log,
    Archive,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Source,
        Self::Json,
        Self::Binary,
        Self::Log,
        Self::Archive,
    ];

    const fn percent(self) -> u64 {
        match self {
            Self::Source => 35,
            Self::Json | Self::Log | Self::Archive => 15,
            Self::Binary => 20,
        }
    }

    /// The size of the next file, if all files together have `total` bytes.
    fn size(self, rng: &mut impl RngExt, total: u64) -> u64 {
        match self {
            Self::Source => 200 + rng.random_range(0..=178) * rng.random_range(0..=178) * 3 / 4,
            Self::Json => rng.random_range(1_000..=64_000),
            Self::Binary => rng.random_range(4_000..=512_000),
            Self::Log => total / 50,
            Self::Archive => total / 25,
        }
    }

    fn path(self, number: usize) -> String {
        let (hundred, one) = (number / 100, number % 100);
        match self {
            Self::Source => format!("src/module-{hundred:x}/part-{}/file_{one}.rs", one / 12),
            Self::Json => format!("data/set-{hundred:x}/record_{one}.json"),
            Self::Binary => format!("assets/{hundred:x}/image_{one}.bin"),
            Self::Log => format!("logs/service-{number}.log"),
            Self::Archive => format!("archives/backup-{number}.tar.zst"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct File {
    kind: Kind,
    number: usize,
    size: u64,
}

/// Files of all kinds, with `total` bytes together.
#[derive(Debug)]
pub(crate) struct Mixed {
    files: Vec<File>,
}

impl Mixed {
    pub(crate) fn new(total: u64) -> Self {
        let mut files = Vec::new();
        for kind in Kind::ALL {
            let mut rng = numbers("mixed sizes", kind as u64);
            let mut left = total * kind.percent() / 100;
            let mut number = 0;
            while left > 0 {
                let size = kind.size(&mut rng, total).min(left);
                files.push(File { kind, number, size });
                left -= size;
                number += 1;
            }
        }
        Self { files }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

impl Dataset for Mixed {
    fn files(&self) -> usize {
        self.files.len()
    }

    fn path(&self, index: usize) -> String {
        let File { kind, number, .. } = self.files[index];
        kind.path(number)
    }

    fn content(&self, index: usize) -> Vec<u8> {
        let File { kind, size, .. } = self.files[index];
        let mut rng = numbers("mixed", index as u64);
        match kind {
            Kind::Source | Kind::Log => text::source(&mut rng, size as usize),
            Kind::Json => text::json(&mut rng, size as usize),
            Kind::Binary | Kind::Archive => text::random_bytes(&mut rng, size as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn files_have_the_bytes_asked_for_and_paths_of_their_own() {
        let mixed = Mixed::new(16 << 20);
        assert!(mixed.bytes().abs_diff(16 << 20) < 5);
        let paths: HashSet<_> = (0..mixed.files()).map(|index| mixed.path(index)).collect();
        assert_eq!(paths.len(), mixed.files());
        let made = (0..mixed.files()).map(|index| mixed.content(index).len() as u64);
        assert_eq!(made.sum::<u64>(), mixed.bytes());
    }
}
