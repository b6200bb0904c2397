//! The ignore rules of merges, for files on a disk: committing or importing a
//! directory skips `.git` and the paths that `.gitignore` files name, as
//! merging a workspace does.

use elevo_core::TreePath;
use elevo_engine::Ignore;
use elevo_policy::Ignores;
use parking_lot::RwLock;

/// The ignore rules of a directory that is being read: the rules of its
/// `.gitignore` files, and `.git`.
#[derive(Debug, Default)]
pub struct IgnoreFiles(RwLock<Ignores>);

impl Ignore for IgnoreFiles {
    fn file_name(&self) -> &[u8] {
        b".gitignore"
    }

    fn add(&self, directory: &TreePath, content: &[u8]) {
        // A file beyond the total limit on ignore rules has no effect; `Locals`
        // does the same in a merge.
        let _ = self.0.write().add(directory, content);
    }

    fn ignored(&self, directory: &TreePath, names: &[(&[u8], bool)]) -> Vec<bool> {
        let ignores = self.0.read();
        let within = ignores.within(directory);
        let names = names.iter();
        names
            .map(|(name, is_directory)| *name == b".git" || within.ignores(name, *is_directory))
            .collect()
    }
}
