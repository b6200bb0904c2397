//! Watches of the files in workspaces and homes.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_api::{Scope, WatchKind};
use elevo_core::{ErrorCode, TenantId};
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::files::place::Place;
use crate::app::files::target::{Need, WorkspaceRef};
use crate::app::resources::Resources;
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result};
use crate::platform::watch::events::{self, Raw};
use crate::platform::watch::{Batch, ChangeKind, Tree, WatchError};

/// Maximum watches of all tenants. Each needs one of the `inotify` instances of
/// the server's user, of which Linux allows 128 by default.
const MAX_WATCHES: usize = 64;

/// Maximum watches of one tenant.
const MAX_OF_TENANT: usize = 16;

/// Time between two batches of events. Repeated changes of a file in this time
/// are one event.
const PAUSE: Duration = Duration::from_millis(20);

/// Interval at which a watch checks that its workspace and its path still exist.
const CHECK: Duration = Duration::from_secs(10);

/// Minimum time between two gaps. It limits the work of a sandbox that changes
/// its files so fast that events are lost.
const BETWEEN_GAPS: Duration = Duration::from_secs(1);

/// Attempts to find a directory that is being replaced, and the time between
/// them.
const REPLACING: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(200);

/// Starts watches, and limits their number.
pub(crate) struct Watches {
    files: Arc<Files>,
    stores: Arc<TenantStores>,
    running: Arc<Running>,
}

/// Number of running watches of each tenant.
#[derive(Debug, Default)]
struct Running(Mutex<HashMap<TenantId, usize>>);

/// A running watch, which counts until dropped.
#[derive(Debug)]
struct Turn {
    running: Arc<Running>,
    tenant: TenantId,
}

impl Running {
    fn begin(running: &Arc<Self>, tenant: TenantId) -> Result<Turn> {
        let mut counts = running.0.lock();
        if counts.values().sum::<usize>() >= MAX_WATCHES {
            let message = format!("the server runs {MAX_WATCHES} watches of files already");
            return Err(Failure::new(ErrorCode::Overloaded, message).retry_after(5));
        }
        let count = counts.entry(tenant).or_default();
        if *count >= MAX_OF_TENANT {
            let message = format!("this tenant runs {MAX_OF_TENANT} watches of files already");
            return Err(Failure::new(ErrorCode::QuotaExceeded, message)
                .remediation("End watches that are no longer needed."));
        }
        *count += 1;
        drop(counts);
        let running = running.clone();
        Ok(Turn { running, tenant })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut counts = self.running.0.lock();
        if let Some(count) = counts.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}

/// Returns the directory that a path names. It is below the workspace or the
/// home: the server cannot watch other directories of a container.
fn place_of(path: &str) -> Result<Place> {
    match Place::parse(path.as_bytes())? {
        Place::Container(_) => {
            let message = "only paths below /workspace and /home/agent can be watched";
            Err(Failure::invalid(message))
        }
        place => Ok(place),
    }
}

/// A watch of the files below one directory.
pub(crate) struct Watching {
    files: Arc<Files>,
    stores: Arc<TenantStores>,
    who: Principal,
    of: WorkspaceRef,
    place: Place,
    /// `None` only while a blocking closure has it.
    tree: Option<Tree>,
    /// The queue of the tree; `None` only while the tree is opened again.
    queue: Option<AsyncFd<Arc<OwnedFd>>>,
    /// Number of the last event.
    number: u64,
    resume_at: Instant,
    check_at: Instant,
    gap_at: Instant,
    _turn: Turn,
}

impl Watches {
    pub(crate) fn new(resources: &Resources, files: &Arc<Files>) -> Self {
        Self {
            files: files.clone(),
            stores: resources.stores.clone(),
            running: Arc::default(),
        }
    }

    /// Watches the files below a path. All directories are watched when this
    /// returns.
    pub(crate) async fn start(
        &self,
        who: &Principal,
        of: WorkspaceRef,
        path: &str,
    ) -> Result<Watching> {
        who.needs(Scope::Files)?;
        let place = place_of(path)?;
        let turn = Running::begin(&self.running, who.tenant)?;
        let tree = open(&self.files, &self.stores, who, &of, &place).await?;
        let now = Instant::now();
        Ok(Watching {
            files: self.files.clone(),
            stores: self.stores.clone(),
            who: who.clone(),
            queue: Some(registered(&tree)?),
            tree: Some(tree),
            of,
            place,
            number: 0,
            resume_at: now,
            check_at: now + CHECK,
            gap_at: now,
            _turn: turn,
        })
    }
}

/// Opens the tree of a place.
async fn open(
    files: &Files,
    stores: &TenantStores,
    who: &Principal,
    of: &WorkspaceRef,
    place: &Place,
) -> Result<Tree> {
    let target = files.target(who, of, Need::Transfer).await?;
    let place = place.clone();
    let opening = stores.with(target.tenant, move |workspaces| {
        let (root, below) = match place {
            Place::Home(below) => (workspaces.home(&target.id)?, below),
            Place::Workspace(below) | Place::Container(below) => {
                (workspaces.path(&target.id)?, below)
            }
        };
        Ok(Tree::open(root, below)?)
    });
    opening.await
}

fn registered(tree: &Tree) -> Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the queue is an open descriptor, and its `Arc` keeps it open for
    // as long as the `AsyncFd` exists.
    let registered = unsafe { AsyncFd::register_with_interest(tree.queue(), Interest::READABLE) };
    registered.map_err(|error| Failure::internal(&std::io::Error::from(error)))
}

impl Watching {
    /// Returns the first event of the watch.
    pub(crate) fn begun(&mut self) -> api::WatchEvent {
        self.event(WatchKind::Watching, None)
    }

    /// Waits for events. Fails if the workspace or the path no longer exists, or
    /// if there are too many directories.
    pub(crate) async fn next(&mut self) -> Result<Vec<api::WatchEvent>> {
        loop {
            // Events wait in the queue of the kernel in the meantime. It also
            // holds those of a client that reads slowly; if it overflows, the
            // client gets a gap.
            sleep_until(self.resume_at).await;
            let queue = self.queue.as_ref().ok_or_else(lost)?;
            let events = tokio::select! {
                events = readable(queue) => events?,
                () = sleep_until(self.check_at) => {
                    self.check_at = Instant::now() + CHECK;
                    match self.is_current().await? {
                        true => continue,
                        false => return Ok(vec![self.reopen().await?]),
                    }
                }
            };
            // More events wait already, so a pause would not let any be joined.
            let pause = match events::is_part(&events) {
                true => Duration::ZERO,
                false => PAUSE,
            };
            let batch = self.apply(events).await?;
            self.resume_at = Instant::now() + pause;
            let mut changes: Vec<_> = batch
                .changes
                .into_iter()
                .map(|change| {
                    let kind = match change.kind {
                        ChangeKind::Created => WatchKind::Created,
                        ChangeKind::Changed => WatchKind::Changed,
                        ChangeKind::Deleted => WatchKind::Deleted,
                    };
                    let path = self.place.shown().join(&change.path);
                    let path = path.to_string_lossy().into_owned();
                    self.event(kind, Some((path, change.is_directory)))
                })
                .collect();
            if batch.is_lost {
                changes.push(self.reopen().await?);
            } else if batch.is_incomplete {
                changes.push(self.event(WatchKind::Gap, None));
            }
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    /// Applies events where they may wait for the disk, if they need it.
    async fn apply(&mut self, events: Vec<Raw>) -> Result<Batch> {
        let mut batch = Batch::default();
        let mut tree = self.tree.take().ok_or_else(lost)?;
        if !events::needs_disk(&events) {
            let applied = tree.apply(events, &mut batch);
            self.tree = Some(tree);
            applied?;
            return Ok(batch);
        }
        let applying = self.stores.blocking(self.who.tenant, move || {
            tree.apply(events, &mut batch)?;
            Ok((tree, batch))
        });
        let (tree, batch) = applying.await?;
        self.tree = Some(tree);
        Ok(batch)
    }

    /// Returns whether the watched directory is still that of the path.
    async fn is_current(&mut self) -> Result<bool> {
        self.files
            .target(&self.who, &self.of, Need::Transfer)
            .await?;
        let tree = self.tree.take().ok_or_else(lost)?;
        let checking = self.stores.blocking(self.who.tenant, move || {
            let is_current = tree.is_current();
            Ok((tree, is_current))
        });
        let (tree, is_current) = checking.await?;
        self.tree = Some(tree);
        Ok(is_current)
    }

    /// Watches all directories again, after events were lost. Returns the event
    /// that reports it.
    async fn reopen(&mut self) -> Result<api::WatchEvent> {
        sleep_until(self.gap_at).await;
        self.gap_at = Instant::now() + BETWEEN_GAPS;
        // The kernel limits the number of queues and watches.
        (self.tree, self.queue) = (None, None);
        let tree = self.open_again().await?;
        self.queue = Some(registered(&tree)?);
        self.tree = Some(tree);
        Ok(self.event(WatchKind::Gap, None))
    }

    /// Opens the tree. Waits a little for a directory that is missing: a process
    /// may be putting another one in its place.
    async fn open_again(&self) -> Result<Tree> {
        for _ in 0..REPLACING {
            match open(&self.files, &self.stores, &self.who, &self.of, &self.place).await {
                Err(failure) if failure.code == ErrorCode::PathNotFound => {
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                opened => return opened,
            }
        }
        open(&self.files, &self.stores, &self.who, &self.of, &self.place).await
    }

    fn event(&mut self, kind: WatchKind, file: Option<(String, bool)>) -> api::WatchEvent {
        self.number += 1;
        let (path, is_directory) = file.unzip();
        api::WatchEvent {
            id: self.number,
            kind,
            path,
            is_directory,
        }
    }
}

/// Waits until there are events, and reads some of them.
async fn readable(queue: &AsyncFd<Arc<OwnedFd>>) -> Result<Vec<Raw>> {
    let failed = |error: std::io::Error| Failure::internal(&error);
    loop {
        let mut ready = queue.readable().await.map_err(failed)?;
        match events::read(queue.get_ref()).map_err(failed)? {
            Some(events) => return Ok(events),
            None => ready.clear_ready(),
        }
    }
}

fn lost() -> Failure {
    Failure::new(
        ErrorCode::InternalError,
        "an earlier call of this watch failed",
    )
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Self {
        let message = error.to_string();
        match error {
            WatchError::NoSuchPath | WatchError::LeadsOut | WatchError::Unreadable => {
                Self::new(ErrorCode::PathNotFound, message)
            }
            WatchError::NotADirectory => Self::new(ErrorCode::NotADirectory, message),
            WatchError::TooMany => Self::new(ErrorCode::TooManyDirectories, message),
            WatchError::Limit(name) => Self::new(ErrorCode::Overloaded, message)
                .remediation(format!("Ask the operator to raise {name} with `sysctl`.")),
            WatchError::Io(_) => Self::internal(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn paths_are_below_the_workspace_or_the_home() {
        let place = |text: &str| place_of(text).map(|place| place.shown().join("file"));
        for (text, shown) in [
            ("", "file"),
            (".", "file"),
            ("/workspace", "file"),
            ("/workspace/", "file"),
            ("src/./deep", "src/deep/file"),
            ("/workspace/src", "src/file"),
            ("/home/agent", "/home/agent/file"),
            ("/home/agent/a", "/home/agent/a/file"),
        ] {
            assert_eq!(place(text).unwrap(), Path::new(shown), "{text}");
        }
        for text in [
            "/",
            "/etc",
            "/workspaces",
            "/home",
            "..",
            "a/../b",
            "/workspace/../etc",
        ] {
            assert_eq!(
                place(text).unwrap_err().code,
                ErrorCode::InvalidRequest,
                "{text}"
            );
        }
    }

    #[test]
    fn watches_are_limited_for_each_tenant_and_for_the_server() {
        let running = Arc::new(Running::default());
        let begin = |tenant| Running::begin(&running, TenantId::new([tenant; 16]));
        let mut turns: Vec<_> = (0..MAX_OF_TENANT).map(|_| begin(1).unwrap()).collect();
        assert_eq!(begin(1).unwrap_err().code, ErrorCode::QuotaExceeded);
        let others = (0..MAX_WATCHES - MAX_OF_TENANT).map(|n| begin(2 + (n / MAX_OF_TENANT) as u8));
        turns.extend(others.map(|turn| turn.unwrap()));
        assert_eq!(begin(9).unwrap_err().code, ErrorCode::Overloaded);
        turns.clear();
        assert!(running.0.lock().is_empty());
        begin(1).unwrap();
    }
}
