//! The files of stored trees, which are versions of projects and snapshots:
//! single files, lists of directories and archives, without the paths that are
//! hidden from the principal.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use elevo_api as api;
use elevo_archive::{Export, ExportContent};
use elevo_core::{ErrorCode, Name, TenantId, Timestamp, TreePath};
use elevo_engine::{Progress, Repository, Stat, StateTree};
use elevo_objects::{Content as Stored, Entry, Hash, Kind, Mode};
use elevo_policy::{Access, View};

use crate::app::files::content::Content;
use crate::app::files::diff::readable;
use crate::app::pages::{self, PageQuery};
use crate::app::snapshots::Kept;
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result, short};
use crate::platform::clock;

/// Number of entries of a directory that are read at once, at least.
const READ_AT_ONCE: usize = 1000;

/// Maximum number of links on the way to a file, as in Linux.
const MAX_LINKS: usize = 40;

/// A tree that a principal may read, except its hidden paths.
pub(crate) struct StoredTree {
    stores: Arc<TenantStores>,
    kept: Kept,
    tree: StateTree,
    view: View,
    /// Name of the tree in messages, such as "this snapshot".
    noun: &'static str,
}

impl StoredTree {
    /// Opens the tree of a snapshot.
    pub(crate) fn open(
        stores: &Arc<TenantStores>,
        tenant: TenantId,
        (kept, noun): (Kept, &'static str),
        view: View,
    ) -> Self {
        let repository = stores.repository(tenant);
        Self {
            stores: stores.clone(),
            tree: StateTree::at(&repository, &kept.snapshot),
            kept,
            view,
            noun,
        }
    }

    fn repository(&self) -> &Repository {
        self.tree.repository()
    }

    /// Finds a file. Links that stay inside the tree are followed.
    pub(crate) async fn file(self, path: &str) -> Result<StoredFile> {
        let wanted = tree_path(path)?;
        let (path, entry) = self.find(&wanted).await?;
        let Entry::File { mode, content } = entry else {
            let message = format!("`{}` is a directory", readable(wanted.as_bytes()));
            return Err(Failure::new(ErrorCode::IsADirectory, message));
        };
        let stat = self.tree.stat(&path).await?;
        let modified = stat.and_then(|stat| stat.modified).and_then(system_time);
        Ok(StoredFile {
            tree: self,
            content,
            mode,
            modified,
        })
    }

    /// Returns a page of the visible entries of a directory.
    pub(crate) async fn list(&self, path: &str, page: PageQuery) -> Result<api::FilePage> {
        let wanted = tree_path(path)?;
        let (directory, entry) = self.find(&wanted).await?;
        if !is_directory(&entry) {
            let message = format!("`{}` is not a directory", short(path));
            return Err(Failure::new(ErrorCode::NotADirectory, message));
        }
        let limit = page.limit as usize;
        let (mut shown, mut after) = (Vec::new(), cursor(&page)?);
        // One entry more than the page shows whether there is another page. Many
        // entries are read at once, because most of them may be hidden.
        let most = (limit + 1).max(READ_AT_ONCE);
        while shown.len() <= limit {
            let found = self.tree.list(&directory, after.as_ref(), most);
            let found = found.await?;
            after = found.last().map(|(name, _)| name.clone());
            let is_last = found.len() < most;
            for (name, stat) in found {
                let path = directory.join(&name).map_err(elevo_engine::Error::from)?;
                let is_directory = stat.kind == elevo_engine::EntryKind::Directory;
                if shows(&self.view, &path, is_directory) {
                    shown.push((name, path, stat));
                }
            }
            if is_last {
                break;
            }
        }
        let has_more = shown.len() > limit;
        shown.truncate(limit);
        let next = shown.last().filter(|_| has_more);
        let next = next.map(|(name, ..)| pages::of_bytes(name.as_bytes()));
        Ok(api::FilePage {
            snapshot: Some(self.kept.id.to_string()),
            items: self.infos(&wanted, &shown).await?,
            next,
        })
    }

    /// Describes entries of a directory.
    async fn infos(
        &self,
        directory: &TreePath,
        shown: &[(Name, TreePath, Stat)],
    ) -> Result<Vec<api::FileInfo>> {
        let mut entries = Vec::new();
        for (name, path, stat) in shown {
            entries.extend(
                self.tree
                    .entry(path)
                    .await?
                    .map(|entry| (name, stat, entry)),
            );
        }
        let links = entries.iter().filter_map(|(.., entry)| match entry {
            Entry::Link(link) => Some(link.hash),
            _ => None,
        });
        let targets = self.repository().chunks(&links.collect::<Vec<_>>()).await?;
        let mut targets = targets.into_iter();
        let mut infos = Vec::new();
        for (name, stat, entry) in entries {
            let path = directory.join(name).map_err(elevo_engine::Error::from)?;
            let target = match entry {
                Entry::Link(_) => targets.next().map(|target| readable(&target)),
                _ => None,
            };
            infos.push(api::FileInfo {
                path: readable(path.as_bytes()),
                name: readable(name.as_bytes()),
                modified_at: stat.modified.map(clock::text),
                target,
                ..shape(&entry)
            });
        }
        Ok(infos)
    }

    /// Checks the request, and returns a future that writes a path as a tar
    /// archive.
    pub(crate) async fn pack<W: Write + Send + 'static>(
        self,
        path: &str,
        out: W,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<W>> {
        let path = tree_path(path)?;
        // Checked before the response begins: after that, a missing path could
        // not become an error response.
        if self.visible(&path).await?.is_none() {
            return Err(self.missing(&path));
        }
        let (shares, tenant) = (&self.stores.clone().shares, self.repository().tenant());
        let packing = move || {
            let export = Export {
                repository: self.repository(),
                snapshot: &self.kept.snapshot,
                path: &path,
                form: &ExportContent::Plain,
                threads: 1,
            };
            let shows = |path: &_, is_directory| shows(&self.view, path, is_directory);
            export.write(shows, out, &Progress::new())?;
            Ok(())
        };
        Ok(shares.packing(tenant).await?.run(packing))
    }

    /// Returns the file or directory at a path, and its path without links.
    async fn find(&self, wanted: &TreePath) -> Result<(TreePath, Entry)> {
        let found = self.visible(wanted).await?;
        if let Some(entry) = found.filter(|entry| !matches!(entry, Entry::Link(_))) {
            return Ok((wanted.clone(), entry));
        }
        let mut names: VecDeque<Vec<u8>> = names(wanted.as_bytes()).collect();
        let (mut path, mut links) = (TreePath::root(), 0);
        while let Some(name) = names.pop_front() {
            if name == b".." {
                let parent = path.split_last().map(|(parent, _)| parent);
                path = parent.ok_or_else(|| leads_out(wanted))?;
                continue;
            }
            let name = Name::copy_from(&name).map_err(|_| self.missing(wanted))?;
            let next = path.join(&name).map_err(|_| self.missing(wanted))?;
            let found = self.visible(&next).await?;
            match found.ok_or_else(|| self.missing(wanted))? {
                Entry::Link(link) => {
                    links += 1;
                    let target = self.repository().chunks(&[link.hash]).await?;
                    let target = target.first().map(|target| &target[..]).unwrap_or_default();
                    if target.starts_with(b"/") {
                        return Err(leads_out(wanted));
                    }
                    if links > MAX_LINKS {
                        return Err(Failure::new(
                            ErrorCode::PathNotFound,
                            format!("`{}` has too many links", readable(wanted.as_bytes())),
                        ));
                    }
                    for name in self::names(target).collect::<Vec<_>>().into_iter().rev() {
                        names.push_front(name);
                    }
                }
                // Only a directory has entries, and a parent directory.
                Entry::File { .. } if !names.is_empty() => return Err(self.missing(wanted)),
                _ => path = next,
            }
        }
        let found = self.visible(&path).await?;
        Ok((path, found.ok_or_else(|| self.missing(wanted))?))
    }

    /// Returns the entry at a path; `None` if the path does not exist or is
    /// hidden.
    async fn visible(&self, path: &TreePath) -> Result<Option<Entry>> {
        visible_entry(&self.tree, &self.view, path).await
    }

    fn missing(&self, path: &TreePath) -> Failure {
        no_path(path, self.noun)
    }
}

/// A file of a stored tree.
pub(crate) struct StoredFile {
    tree: StoredTree,
    content: Stored,
    mode: Mode,
    modified: Option<SystemTime>,
}

impl StoredFile {
    pub(crate) fn size(&self) -> u64 {
        self.content.size()
    }

    pub(crate) fn etag(&self) -> String {
        etag(content_hash(&self.content))
    }

    pub(crate) fn mode(&self) -> u32 {
        self.mode.bits()
    }

    pub(crate) fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// Opens a range of the file. Only the chunks of the range are read.
    pub(crate) async fn open(self, range: Range<u64>) -> Result<Content> {
        let StoredTree {
            stores, kept, tree, ..
        } = self.tree;
        let opened = Content::open_range(&stores, tree.repository(), &self.content, range);
        Ok(opened.await?.keeping(kept))
    }
}

/// Returns the entry at a path; `None` if the path does not exist or the view
/// hides it.
pub(crate) async fn visible_entry(
    tree: &StateTree,
    view: &View,
    path: &TreePath,
) -> Result<Option<Entry>> {
    if path.is_root() {
        let mode = Mode::EXECUTABLE;
        let tree = tree.tree().await?;
        return Ok(Some(Entry::Directory { mode, tree }));
    }
    let found = tree.entry(path).await?;
    Ok(found.filter(|entry| shows(view, path, is_directory(entry))))
}

/// Returns the failure of a request for a path that does not exist or is hidden.
pub(crate) fn no_path(path: &TreePath, noun: &str) -> Failure {
    let path = readable(path.as_bytes());
    let message = format!("there is no `{path}` in {noun}");
    Failure::new(ErrorCode::PathNotFound, message).about("path", path)
}

fn leads_out(path: &TreePath) -> Failure {
    let path = readable(path.as_bytes());
    let message = format!("a link in `{path}` leads out of the tree");
    Failure::new(ErrorCode::PathNotFound, message).about("path", path)
}

/// Parses a path in a request. Slashes at its start and end are ignored.
pub(crate) fn tree_path(text: &str) -> Result<TreePath> {
    let trimmed = text.trim_matches('/');
    TreePath::new(trimmed).map_err(|error| Failure::invalid(format!("`path`: {error}")))
}

/// Returns true if a view shows a path or, for a directory, if it may show any
/// path in it.
pub(crate) fn shows(view: &View, path: &TreePath, is_directory: bool) -> bool {
    match is_directory {
        true => view.uniform(path) != Some(Access::None),
        false => view.access(path) != Access::None,
    }
}

pub(crate) const fn is_directory(entry: &Entry) -> bool {
    matches!(entry, Entry::Directory { .. })
}

/// Returns the name after which a page starts.
fn cursor(page: &PageQuery) -> Result<Option<Name>> {
    let after = page.bytes()?.map(|name| Name::copy_from(&name));
    after.transpose().map_err(|_| pages::not_a_cursor())
}

/// Returns the names in a path or in the target of a link.
fn names(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    let names = names.filter(|name| !matches!(name, [] | [b'.']));
    names.map(<[u8]>::to_vec)
}

/// Returns the description of an entry without its path.
fn shape(entry: &Entry) -> api::FileInfo {
    let (kind, size, mode, hash) = match entry {
        Entry::File { mode, content } => {
            let hash = content_hash(content);
            (
                api::FileKind::File,
                Some(content.size()),
                mode.bits(),
                Some(hash),
            )
        }
        Entry::Directory { mode, .. } => (api::FileKind::Directory, None, mode.bits(), None),
        Entry::Link(link) => (
            api::FileKind::Symlink,
            Some(link.size),
            0o777,
            Some(link.hash),
        ),
    };
    api::FileInfo {
        path: String::new(),
        name: String::new(),
        kind,
        size,
        mode: format!("{mode:04o}"),
        modified_at: None,
        etag: hash.map(etag),
        target: None,
    }
}

/// Returns the hash of the content of a file. Equal contents have equal hashes,
/// because their chunks depend only on their bytes.
fn content_hash(content: &Stored) -> Hash {
    match content {
        Stored::Empty => Kind::Chunk.hash(&[]),
        Stored::Chunk { hash, .. } | Stored::List { hash, .. } => *hash,
    }
}

fn etag(hash: Hash) -> String {
    format!("\"{hash}\"")
}

fn system_time(time: Timestamp) -> Option<SystemTime> {
    let seconds = u64::try_from(time.seconds()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, time.nanos()))
}
