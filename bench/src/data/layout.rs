//! A project with many files. Each directory has thirteen files and up to twelve directories.

use rand::RngExt;

use super::{Dataset, numbers, text};

const FILES_PER_DIRECTORY: usize = 13;

/// Names of directories. They are the digits of a directory's number in base 12, and the digits of
/// the number are the path of the directory.
const DIRECTORIES: [&str; 12] = [
    "api", "auth", "build", "cache", "client", "config", "core", "data", "engine", "net", "store",
    "util",
];

const STEMS: [&str; 8] = [
    "client", "handler", "index", "model", "parser", "routes", "types", "view",
];
const ENDINGS: [&str; 6] = ["rs", "ts", "py", "go", "md", "toml"];

/// The sizes of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSizes {
    /// 128 bytes to 16 KB, 4 KiB on average.
    Ordinary,
    /// 200 to 600 bytes, so that a million files need little space.
    Short,
}

/// A tree of `files` files of program text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    files: usize,
    sizes: FileSizes,
}

impl Layout {
    pub(crate) const fn new(files: usize, sizes: FileSizes) -> Self {
        Self { files, sizes }
    }

    fn size(&self, rng: &mut impl RngExt) -> usize {
        match self.sizes {
            FileSizes::Ordinary => 128 + rng.random_range(0..=126) * rng.random_range(0..=126),
            FileSizes::Short => rng.random_range(200..=600),
        }
    }
}

impl Dataset for Layout {
    fn files(&self) -> usize {
        self.files
    }

    fn path(&self, index: usize) -> String {
        let mut path = directory(index / FILES_PER_DIRECTORY);
        let (stem, ending) = (STEMS[index % STEMS.len()], ENDINGS[index % ENDINGS.len()]);
        path += &format!("{stem}_{index:x}.{ending}");
        path
    }

    fn content(&self, index: usize) -> Vec<u8> {
        let mut rng = numbers("layout", index as u64);
        let size = self.size(&mut rng);
        text::source(&mut rng, size)
    }
}

/// Returns the path of a directory by its number, with a slash at the end: 0 is the root, 1 to 12
/// are the directories in the root, and the next numbers are the twelve directories in each of
/// those. A name also contains a number, so that directories have different names.
fn directory(number: usize) -> String {
    let mut path = String::new();
    let mut rest = number;
    while rest > 0 {
        let digit = (rest - 1) % DIRECTORIES.len();
        path.insert_str(0, &format!("{}-{:x}/", DIRECTORIES[digit], rest % 251));
        rest = (rest - 1) / DIRECTORIES.len();
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn paths_are_distinct_and_no_file_is_where_a_directory_is() {
        let layout = Layout::new(50_000, FileSizes::Short);
        let paths: HashSet<_> = (0..layout.files())
            .map(|index| layout.path(index))
            .collect();
        assert_eq!(paths.len(), 50_000);
        let directories: HashSet<_> = (0..50_000 / 13)
            .map(|number| directory(number).trim_end_matches('/').to_owned())
            .collect();
        assert_eq!(directories.len(), 50_000 / 13);
        assert!(paths.is_disjoint(&directories));
    }

    #[test]
    fn a_hundred_thousand_files_are_four_kibibytes_on_average() {
        let layout = Layout::new(100_000, FileSizes::Ordinary);
        let some = (0..100_000).step_by(97);
        let count = some.clone().count();
        let bytes: usize = some.map(|index| layout.content(index).len()).sum();
        assert!((3800..4400).contains(&(bytes / count)), "{}", bytes / count);
    }
}
