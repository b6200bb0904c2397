//! Reads a directory into the store and reports the result, for `import` and
//! `commit`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use elevo_engine::{
    CommitInfo, Ignoring, ImportOptions, Imported, Loss, LossKind, NewStatCache, Progress,
    Repository, import, import_again,
};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Hash, Snapshot, SnapshotId, Tree};
use serde::Serialize;

use super::seen;
use crate::bar::{self, Watch};
use crate::errors::Problem;
use crate::format::{self, path_text};
use crate::output::IDENTITY;
use crate::record::RESERVED;
use crate::session::{Session, left_out, wait};
use crate::shapes::PathShape;

/// Returns an error if the directory contains the store outside `.elevo`, or is
/// inside the store.
pub(super) fn check_apart(store: &Path, directory: &Path) -> Result<(), Problem> {
    let inside = store.starts_with(directory) && !store.starts_with(directory.join(RESERVED));
    if inside || directory.starts_with(store) {
        return Err(Problem::StoreInside {
            store: store.into(),
            directory: directory.into(),
        });
    }
    Ok(())
}

/// A directory that was read into the store, and the metadata of its files.
pub(super) struct Read {
    pub(super) imported: Imported,
    cache: Option<NewStatCache>,
}

impl Read {
    /// Creates a snapshot, which is durable when this returns.
    pub(super) fn commit(
        self,
        repository: &Repository,
        info: CommitInfo,
    ) -> anyhow::Result<SnapshotId> {
        let id = wait(self.imported.commit(repository, info))?;
        remember(self.cache, id);
        Ok(id)
    }

    /// Only saves the metadata, for a directory that equals snapshot `id`.
    pub(super) fn keep(self, id: SnapshotId) {
        remember(self.cache, id);
    }
}

fn remember(cache: Option<NewStatCache>, id: SnapshotId) {
    // On a failure the next read is only slower.
    let _ = cache.map(|cache| cache.finish(id));
}

/// Reads a directory into the store; if it was read before, only files that
/// changed since. Leaves out ignored files, unless `parent` has them.
pub(super) fn read_directory(
    session: &Session,
    repository: &Repository,
    store: &Path,
    directory: &Path,
    parent: Option<&Snapshot>,
) -> anyhow::Result<Read> {
    let options = ImportOptions {
        threads: session.threads(),
        leave_out: left_out(),
        ignoring: Some(Ignoring {
            rules: Arc::new(IgnoreFiles::default()),
            tracked: parent.map(|parent| parent.tree).into_iter().collect(),
        }),
    };
    let progress = Progress::new();
    let watch = Watch {
        doing: "reading",
        things: "entries",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let cache = seen::cache_of(store, directory);
    let imported = bar::watch(session.hides_progress(), watch, || match &cache {
        Some(cache) => import_again(repository, directory, &options, &progress, cache),
        None => import(repository, directory, &options, &progress),
    });
    let imported = imported.with_context(|| format!("cannot read {}", directory.display()))?;
    // Like git, a commit does not report ignored files.
    let is_news = |loss: &&Loss| loss.kind != LossKind::Ignored;
    for loss in imported.losses.iter().filter(is_news) {
        session.note(&describe(loss));
    }
    Ok(Read { imported, cache })
}

/// The result of a commit or import.
pub(super) struct Kept {
    pub(super) id: SnapshotId,
    /// First line of the message.
    pub(super) title: String,
    pub(super) parents: Vec<SnapshotId>,
    pub(super) tree: Tree,
    pub(super) times: Option<Hash>,
    pub(super) losses: Vec<Loss>,
    /// Whether a new snapshot was created.
    pub(super) made: bool,
    /// The reference that was moved to the snapshot.
    pub(super) reference: Option<String>,
}

#[derive(Serialize)]
struct KeptShape {
    snapshot: String,
    changed: bool,
    tree: Option<String>,
    times: Option<String>,
    parents: Vec<String>,
    entries: u64,
    bytes: u64,
    reference: Option<String>,
    losses: Vec<LossShape>,
}

#[derive(Serialize)]
pub(crate) struct LossShape {
    kind: &'static str,
    count: u64,
    #[serde(flatten)]
    example: PathShape,
}

impl Kept {
    pub(super) fn print(&self, session: &mut Session) -> anyhow::Result<()> {
        if session.output.is_json() {
            session.output.value(&self.shape())?;
            return Ok(());
        }
        let id = session.output.styled(IDENTITY, format::short(self.id));
        let id = String::from_utf8_lossy(&id);
        let totals = format::totals(self.tree.count, self.tree.bytes);
        let title = match self.title.as_str() {
            "" => String::new(),
            title => format!(" {title}"),
        };
        let reference = match &self.reference {
            Some(reference) => format!("{} ", super::describe::name_of(reference)),
            None => String::new(),
        };
        if self.made {
            let line = format!("[{reference}{id}]{title}\n {totals}");
            session.output.line(line)?;
        } else {
            session.output.line(format!("Nothing changed since {id}"))?;
        }
        Ok(())
    }

    fn shape(&self) -> KeptShape {
        KeptShape {
            snapshot: self.id.to_string(),
            changed: self.made,
            tree: self.tree.root.map(|hash| hash.to_string()),
            times: self.times.map(|hash| hash.to_string()),
            parents: self.parents.iter().map(SnapshotId::to_string).collect(),
            entries: self.tree.count,
            bytes: self.tree.bytes,
            reference: self.reference.clone(),
            losses: self.losses.iter().map(loss_shape).collect(),
        }
    }
}

pub(crate) fn loss_shape(loss: &Loss) -> LossShape {
    LossShape {
        kind: match loss.kind {
            LossKind::Socket => "socket",
            LossKind::Pipe => "pipe",
            LossKind::Device => "device",
            LossKind::Vanished => "vanished",
            LossKind::HardLink => "hard_link",
            LossKind::SpecialBits => "special_bits",
            LossKind::ExtendedAttributes => "extended_attributes",
            LossKind::Owner => "owner",
            LossKind::Ignored => "ignored",
        },
        count: loss.count,
        example: PathShape::new(loss.example.as_bytes()),
    }
}

pub(crate) fn describe(loss: &Loss) -> String {
    let (one, many, fate) = match loss.kind {
        LossKind::Socket => ("socket", "sockets", "left out"),
        LossKind::Pipe => ("named pipe", "named pipes", "left out"),
        LossKind::Device => ("device", "devices", "left out"),
        LossKind::Vanished => ("path", "paths", "left out, changing while read"),
        LossKind::HardLink => ("hard link", "hard links", "kept as separate files"),
        LossKind::SpecialBits => (
            "path with setuid, setgid or sticky bits",
            "paths with setuid, setgid or sticky bits",
            "kept without these",
        ),
        LossKind::ExtendedAttributes => (
            "path with extended attributes",
            "paths with extended attributes",
            "kept without these",
        ),
        LossKind::Ignored => ("ignored path", "ignored paths", "left out"),
        LossKind::Owner => (
            "path of another owner",
            "paths of other owners",
            "kept without owner",
        ),
    };
    let count = format::count(loss.count, one, many);
    let example = path_text(loss.example.as_bytes());
    format!("{count} {fate}, for instance {example}")
}
