//! Removes from a tree the paths that a policy hides.

use crate::failure::Result;
use elevo_core::TreePath;
use elevo_engine::StateTree;
use elevo_objects::Entry;
use elevo_policy::{Access, View};

/// Removes the hidden paths from a tree, and the directories that become empty.
pub(crate) async fn hide(tree: &StateTree, view: &View) -> Result<()> {
    let mut open = vec![TreePath::root()];
    let mut entered = Vec::new();
    while let Some(directory) = open.pop() {
        let mut after = None;
        loop {
            let page = tree.list(&directory, after.as_ref(), PAGE).await?;
            for (name, _) in &page {
                let path = directory.join(name).map_err(elevo_engine::Error::from)?;
                if hide_one(tree, view, &path).await? {
                    entered.push(path.clone());
                    open.push(path);
                }
            }
            after = match page.last() {
                Some((name, _)) if page.len() == PAGE => Some(name.clone()),
                _ => break,
            };
        }
    }
    // In reverse order, so that a directory comes after its subdirectories.
    while let Some(path) = entered.pop() {
        if count_of(tree.entry(&path).await?.as_ref()) == Some(0) {
            tree.remove(&path).await?;
        }
    }
    Ok(())
}

/// Maximum entries read at a time.
const PAGE: usize = 1000;

/// Removes one entry if it is hidden. Returns true for a directory that is only
/// partly visible.
async fn hide_one(tree: &StateTree, view: &View, path: &TreePath) -> Result<bool> {
    let entry = tree.entry(path).await?;
    let access = match count_of(entry.as_ref()) {
        None | Some(0) => Some(view.access(path)),
        Some(_) => view.uniform(path),
    };
    if access == Some(Access::None) {
        tree.remove(path).await?;
    }
    Ok(access.is_none())
}

const fn count_of(entry: Option<&Entry>) -> Option<u64> {
    match entry {
        Some(Entry::Directory { tree, .. }) => Some(tree.count),
        _ => None,
    }
}
