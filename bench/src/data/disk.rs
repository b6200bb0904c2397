//! Writes a dataset to disk on all cores, and lists its files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use super::Dataset;

/// Files with neighbouring indexes share directories, so a thread takes many of them at once.
const NEIGHBOURS: usize = 1024;

/// Writes all files of `data` below `directory`.
pub(crate) fn write_to_disk(data: &dyn Dataset, directory: &Path) -> Result<()> {
    let files = (0..data.files()).into_par_iter().with_min_len(NEIGHBOURS);
    files.try_for_each(|index| {
        let path = directory.join(data.path(index));
        write_file(&path, &data.content(index))
            .with_context(|| format!("cannot write {}", path.display()))
    })
}

fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = match File::create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create(path)?
        }
        other => other?,
    };
    file.write_all(content)
}

/// All regular files below `directory`, in the order of a walk.
pub(crate) fn file_paths(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut open = vec![directory.to_owned()];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}
