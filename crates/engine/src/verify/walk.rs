//! Walks the snapshots to find missing objects, and the paths that need damaged
//! ones.

use std::vec;

use elevo_core::{Name, TreePath};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};

use super::edges::{self, Edge};
use super::pages::{Pages, ReferencePages};
use super::{DamageKind, DamagedPath, Verifier, judge, snapshot_key, unreadable};
use crate::error::Result;

/// A node on the path from a snapshot's root.
struct Frame {
    key: ObjectKey,
    path: TreePath,
    edges: vec::IntoIter<Edge>,
    touched: u64,
}

/// State of a node and everything below it.
enum Below {
    Clean,
    Touched(u64),
    /// The node itself is damaged.
    Damaged(DamageKind),
    Unknown(Vec<Edge>),
}

impl Verifier<'_> {
    /// Walks all snapshots and looks up all refs.
    pub(crate) async fn walk_all(&mut self) -> Result<()> {
        self.start_again();
        let (store, tenant) = (self.store, self.tenant);
        let list = async |after: Option<_>, limit| {
            let ids = store.list_snapshots(tenant, after.map(SnapshotId), limit);
            Ok(ids.await?.into_iter().map(|id| id.0).collect())
        };
        let mut pages = Pages::new();
        while let Some(page) = pages.next(list).await? {
            for hash in page {
                self.walk_snapshot(SnapshotId(hash)).await?;
            }
        }
        self.report.gaps += pages.gaps;
        self.look_up_references(pages.gaps > 0).await
    }

    /// Clears the results of the previous walk.
    fn start_again(&mut self) {
        self.touched.clear();
        self.listed_paths = 0;
        self.damage.retain(|_, damage| {
            damage.needed = false;
            damage.paths.clear();
            damage.kind != DamageKind::Missing && damage.key.kind != Kind::Snapshot
        });
        self.report.gaps = self.gaps;
        self.report.snapshots = 0;
        self.report.references = 0;
        self.report.snapshots_touched = 0;
        self.report.paths_touched = 0;
        self.report.lost_references.clear();
        self.report.more_lost_references = 0;
    }

    /// Walks a snapshot; false if it does not exist or cannot be read.
    async fn walk_snapshot(&mut self, id: SnapshotId) -> Result<bool> {
        let snapshot = match self.snapshot(id).await? {
            Some(Ok(snapshot)) => snapshot,
            Some(Err(kind)) => {
                self.damaged(snapshot_key(id), kind);
                return Ok(false);
            }
            None => return Ok(false),
        };
        self.report.snapshots += 1;
        if let Some(touched @ 1..) = self.walk(id, &snapshot).await? {
            self.report.snapshots_touched += 1;
            self.report.paths_touched += touched;
        }
        Ok(true)
    }

    /// Returns the number of damaged paths of a snapshot; `None` if the
    /// snapshot was deleted during the walk.
    async fn walk(&mut self, id: SnapshotId, snapshot: &Snapshot) -> Result<Option<u64>> {
        let mut stack = vec![Frame {
            key: snapshot_key(id),
            path: TreePath::root(),
            edges: edges::of_snapshot(snapshot).into_iter(),
            touched: 0,
        }];
        let mut touched = 0;
        while let Some(frame) = stack.last_mut() {
            self.progress.check()?;
            let Some(Edge { key, name }) = frame.edges.next() else {
                let done = stack.pop();
                let above = stack.last_mut();
                touched = done.map_or(0, |done| self.leave(&done, above.as_deref()));
                if let Some(above) = above {
                    above.touched = above.touched.saturating_add(touched);
                }
                continue;
            };
            match self.below(key).await? {
                Below::Clean => {}
                Below::Touched(count) => frame.touched = frame.touched.saturating_add(count),
                Below::Damaged(kind) => {
                    frame.touched = frame.touched.saturating_add(1);
                    let path = at(&frame.path, name.as_ref());
                    if kind == DamageKind::Missing && self.snapshot(id).await?.is_none() {
                        return Ok(None);
                    }
                    self.damaged(key, kind);
                    self.need(key, id, path);
                }
                Below::Unknown(edges) => {
                    let path = at(&frame.path, name.as_ref());
                    stack.push(Frame {
                        key,
                        path,
                        edges: edges.into_iter(),
                        touched: 0,
                    });
                }
            }
        }
        Ok(Some(touched))
    }

    /// Records the result for a node, and returns how many damaged paths it
    /// adds to its parent: a file is one path, even if several of its chunks
    /// are damaged.
    fn leave(&mut self, done: &Frame, above: Option<&Frame>) -> u64 {
        let in_list = above.is_some_and(|above| above.key.kind == Kind::ChunkList);
        let touched = match done.key.kind {
            Kind::ChunkList if !in_list => done.touched.min(1),
            _ => done.touched,
        };
        match touched {
            0 => self.clean.add(done.key),
            count => self.touched.add(done.key, count),
        }
        touched
    }

    async fn below(&mut self, key: ObjectKey) -> Result<Below> {
        if self.clean.has(key) || self.whole.has(key) {
            return Ok(Below::Clean);
        }
        if let Some(damage) = self.damage.get(&key) {
            return Ok(Below::Damaged(damage.kind.clone()));
        }
        // While the list of paths has room, walk on to find more of them.
        if self.listed_paths >= self.listed
            && let Some(count) = self.touched.count(key)
        {
            return Ok(Below::Touched(count));
        }
        let data = match self.read(key).await? {
            None => return Ok(Below::Damaged(DamageKind::Missing)),
            Some(Err(kind)) => return Ok(Below::Damaged(kind)),
            Some(Ok(data)) => data,
        };
        if let Err(kind) = judge(key, &data) {
            return Ok(Below::Damaged(kind));
        }
        self.progress.add(1, 0);
        Ok(match edges::of_object(key.kind, &data) {
            Ok(_) if key.kind == Kind::Chunk => {
                self.whole.add(key);
                Below::Clean
            }
            Ok(edges) => Below::Unknown(edges),
            Err(_) => Below::Damaged(DamageKind::Undecodable),
        })
    }

    fn need(&mut self, key: ObjectKey, snapshot: SnapshotId, path: TreePath) {
        let Some(damage) = self.damage.get_mut(&key) else {
            return;
        };
        damage.needed = true;
        if self.listed_paths < self.listed {
            self.listed_paths += 1;
            damage.paths.push(DamagedPath { snapshot, path });
        }
    }

    /// Checks that refs point to snapshots. With `walk`, also walks these,
    /// since the listing may have missed them.
    async fn look_up_references(&mut self, walk: bool) -> Result<()> {
        let (store, tenant) = (self.store, self.tenant);
        let list = async |after: Option<String>, limit| {
            store
                .list_references(tenant, "", after.as_deref(), limit)
                .await
        };
        let mut pages = ReferencePages::new();
        while let Some(page) = pages.next(list).await? {
            self.progress.check()?;
            for (name, id) in &page {
                self.look_up(name, *id, walk).await?;
            }
        }
        self.report.gaps += pages.gaps;
        Ok(())
    }

    async fn look_up(&mut self, name: &str, id: SnapshotId, walk: bool) -> Result<()> {
        self.report.references += 1;
        let is_there = if walk {
            self.walk_snapshot(id).await?
        } else {
            matches!(self.snapshot(id).await?, Some(Ok(_)))
        };
        if is_there {
            return Ok(());
        }
        match self.store.reference(self.tenant, name).await {
            Ok(now) if now == Some(id) => {}
            Ok(_) => return Ok(()),
            Err(error) => return unreadable(error).map(drop),
        }
        let kind = match self.snapshot(id).await? {
            Some(Err(kind)) => kind,
            _ => DamageKind::Missing,
        };
        self.damaged(snapshot_key(id), kind);
        if let Some(damage) = self.damage.get_mut(&snapshot_key(id)) {
            damage.needed = true;
        }
        if self.report.lost_references.len() < self.listed {
            self.report.lost_references.push(name.into());
        } else {
            self.report.more_lost_references += 1;
        }
        Ok(())
    }
}

/// A path that is too long for a tree, which a malicious tree may have, is
/// reported as the path of its directory.
fn at(path: &TreePath, name: Option<&Name>) -> TreePath {
    name.and_then(|name| path.join(name).ok())
        .unwrap_or_else(|| path.clone())
}
