//! Applies a layer of an image.

use elevo_core::TreePath;
use elevo_engine::{Error as EngineError, StateTree, Visit, Walk};
use elevo_objects::Entry;

use crate::error::{Error, Result};
use crate::whiteout::Whiteout;

/// Number of entries after which the tree in memory is stored.
const SETTLE: usize = 1 << 16;

/// Applies a layer to the tree below it. The order of entries in a layer has no
/// meaning: whiteouts are applied first, then all other entries.
pub(super) async fn apply(layer: &StateTree, onto: &StateTree) -> Result<StateTree> {
    let (tree, times) = layer.settle().await?;
    // The result refers to the files of the layer.
    let onto = onto.with_writers_of(layer.repository());
    for pass in [Pass::Gone, Pass::Put] {
        let mut walk = Walk::new(layer.repository(), tree, times).await?;
        let mut count = 0;
        while let Some(visit) = walk.next().await? {
            let name = visit.path.split_last();
            let whiteout = name.and_then(|(above, name)| {
                let whiteout = Whiteout::parse(name.as_bytes())?;
                Some((above, whiteout))
            });
            match (pass, whiteout) {
                (Pass::Gone, Some((directory, whiteout))) => {
                    walk.skip_inside();
                    let whiteout = whiteout.map_err(|_| no_whiteout(&visit.path))?;
                    remove(&onto, &directory, whiteout).await?;
                }
                (Pass::Gone, None) => {}
                (Pass::Put, Some(_)) => walk.skip_inside(),
                (Pass::Put, None) => put(&onto, visit).await?,
            }
            count += 1;
            if count % SETTLE == 0 {
                onto.settle().await?;
            }
        }
    }
    Ok(onto)
}

#[derive(Clone, Copy)]
enum Pass {
    Gone,
    Put,
}

fn no_whiteout(path: &TreePath) -> Error {
    let why = "it is a whiteout without a valid name";
    Error::refused(path.as_bytes(), why)
}

async fn remove(onto: &StateTree, directory: &TreePath, whiteout: Whiteout) -> Result<()> {
    match whiteout {
        Whiteout::Of(name) => {
            let path = directory.join(&name).map_err(EngineError::from)?;
            forgiving(onto.remove(&path).await)
        }
        Whiteout::Opaque => {
            let page = 256;
            loop {
                let names = match onto.list(directory, None, page).await {
                    Err(EngineError::NotFound(_) | EngineError::NotADirectory(_)) => break,
                    names => names?,
                };
                if names.is_empty() {
                    break;
                }
                for (name, _) in names {
                    let path = directory.join(&name).map_err(EngineError::from)?;
                    forgiving(onto.remove(&path).await)?;
                }
            }
            Ok(())
        }
        Whiteout::Reserved => Ok(()),
    }
}

/// Ignores the error that an entry to be removed does not exist.
fn forgiving(removed: elevo_engine::Result<()>) -> Result<()> {
    match removed {
        Err(EngineError::NotFound(_) | EngineError::NotADirectory(_)) => Ok(()),
        other => Ok(other?),
    }
}

async fn put(onto: &StateTree, visit: Visit) -> Result<()> {
    let Visit {
        path,
        entry,
        modified,
    } = visit;
    if let Entry::Directory { mode, .. } = entry {
        let stat = onto.stat(&path).await?;
        let is_there = stat.is_some_and(|stat| stat.kind == elevo_engine::EntryKind::Directory);
        // A directory that was only created as a parent has no time.
        if !is_there || modified.is_some() {
            onto.put_directory(&path, mode, modified).await?;
        }
        return Ok(());
    }
    match onto.put_leaf(&path, entry.clone(), modified).await {
        Err(EngineError::NotAFile(_)) => {
            onto.remove(&path).await?;
            onto.put_leaf(&path, entry, modified).await?;
            Ok(())
        }
        other => Ok(other?),
    }
}
