//! Edits of a tree, and the same edits of the model.

use bytes::Bytes;
use elevo_core::Timestamp;
use elevo_engine::{Attributes, Result, StateTree};
use rand::RngExt;

use super::clients::{Client, Work, path};
use super::model::{File, Files};

impl Client {
    /// Makes a few edits in a tree and in the model.
    pub async fn edit(&self, work: &mut Work) -> Result<()> {
        for _ in 0..1 + self.sim.below(4) {
            self.edit_once(&work.tree, &mut work.files).await?;
        }
        if self.sim.chance(0.1) {
            work.tree.settle().await?;
        }
        Ok(())
    }

    async fn edit_once(&self, tree: &StateTree, files: &mut Files) -> Result<()> {
        let (action, name) = self.sim.random(|random| {
            let action = random.random_range(0..20);
            (action, self.settings.name(random))
        });
        let known: Vec<_> = files.files.keys().cloned().collect();
        let known = self.sim.pick(&known);
        match (action, known) {
            (0..3, Some(gone)) => {
                tree.remove(&path(&gone)).await?;
                files.files.remove(&gone);
            }
            (3, Some(gone)) => {
                let directory = gone.split('/').next().unwrap_or_default();
                tree.remove(&path(directory)).await?;
                files.remove_directory(directory);
            }
            (4..6, Some(from)) => {
                tree.rename(&path(&from), &path(&name)).await?;
                if let Some(file) = files.files.remove(&from) {
                    files.write(&name, file);
                }
            }
            (6..9, Some(at)) => self.splice(tree, files, &at).await?,
            _ => {
                let (bytes, modified) = self.sim.random(|random| {
                    let modified = Timestamp::new(random.random_range(0..3), 0);
                    (self.settings.content(random), modified)
                });
                let modified = modified.filter(|_| self.sim.chance(0.5));
                let attributes = Attributes {
                    modified,
                    ..Attributes::default()
                };
                tree.write(&path(&name), bytes.clone(), attributes).await?;
                files.write(&name, File { bytes, modified });
            }
        }
        Ok(())
    }

    async fn splice(&self, tree: &StateTree, files: &mut Files, at: &str) -> Result<()> {
        let mut bytes = files.files[at].bytes.to_vec();
        let start = self.sim.below(bytes.len() + 1);
        let count = self.sim.below(bytes.len() - start + 1).min(500);
        let insert = Bytes::from(vec![b'x'; self.sim.below(20)]);
        let (offset, remove) = (start as u64, count as u64);
        tree.splice(&path(at), offset, remove, insert.clone())
            .await?;
        bytes.splice(start..start + count, insert);
        let file = File {
            bytes: bytes.into(),
            modified: None,
        };
        files.write(at, file);
        Ok(())
    }
}
