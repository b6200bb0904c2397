//! Trees and archives for tests.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use elevo_archive::{Error, Export, ExportContent, ImportOptions, Limits, Received, import};
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{Attributes, CommitInfo, MemoryStore, Progress, Repository, StateTree};
use elevo_objects::{Mode, Snapshot};
use futures::executor::block_on;
use tar::{EntryType, Header};

/// The expected content of a tree: mode, time and content by path.
pub(crate) type Model = BTreeMap<String, Node>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File(u32, Timestamp, Vec<u8>),
    Directory(u32, Timestamp),
    Link(Timestamp, Vec<u8>),
}

pub(crate) const NOW: Timestamp = match Timestamp::new(1_700_000_000, 123_456_789) {
    Some(now) => now,
    None => panic!(),
};

pub(crate) fn repository() -> Repository {
    Repository::new(Arc::new(MemoryStore::new()), TenantId::LOCAL, 1 << 20)
}

pub(crate) fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

pub(crate) fn info() -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "test".into(),
        message: String::new(),
        created: NOW,
        labels: BTreeMap::new(),
        reference: None,
    }
}

pub(crate) fn snapshot_of(repository: &Repository, state: &StateTree) -> Snapshot {
    block_on(async {
        let id = state.commit(info()).await.unwrap();
        repository.snapshot(id).await.unwrap()
    })
}

/// Writes the entries in the order of the model: directories come before their
/// content.
pub(crate) fn snapshot(repository: &Repository, model: &Model) -> Snapshot {
    let state = StateTree::empty(repository);
    block_on(async {
        for (name, node) in model {
            let at = path(name);
            match node {
                Node::File(mode, modified, content) => {
                    let attributes = Attributes {
                        mode: Some(Mode::from_bits(*mode)),
                        modified: Some(*modified),
                    };
                    let content = Bytes::copy_from_slice(content);
                    state.write(&at, content, attributes).await.unwrap();
                }
                Node::Directory(mode, modified) => {
                    let mode = Mode::from_bits(*mode);
                    let made = state.put_directory(&at, mode, Some(*modified));
                    made.await.unwrap();
                }
                Node::Link(modified, target) => {
                    let target = Bytes::copy_from_slice(target);
                    state.symlink(&at, target).await.unwrap();
                    state.set_modified(&at, Some(*modified)).await.unwrap();
                }
            }
        }
    });
    snapshot_of(repository, &state)
}

pub(crate) fn export(
    repository: &Repository,
    snapshot: &Snapshot,
    at: &str,
    form: &ExportContent,
) -> Vec<u8> {
    let mut out = Vec::new();
    let export = Export {
        repository,
        snapshot,
        path: &path(at),
        form,
        threads: 2,
    };
    export
        .write(|_, _| true, &mut out, &Progress::new())
        .unwrap();
    out
}

pub(crate) const LIMITS: Limits = Limits {
    bytes: 64 << 20,
    entries: 100_000,
    depth: 100,
    name_bytes: 255,
};

pub(crate) fn options() -> ImportOptions {
    ImportOptions {
        limits: LIMITS,
        base: None,
        threads: 2,
    }
}

pub(crate) fn read(repository: &Repository, archive: &[u8]) -> Result<Received, Error> {
    import(repository, archive, &options(), &Progress::new())
}

pub(crate) fn read_layer(
    repository: &Repository,
    archive: &[u8],
    base: &Snapshot,
) -> Result<Received, Error> {
    let options = ImportOptions {
        base: Some(StateTree::at(repository, base)),
        ..options()
    };
    import(repository, archive, &options, &Progress::new())
}

/// Names and contents of the files and links of a tree; directories end in `/`.
pub(crate) fn files(received: &Received) -> BTreeMap<String, Vec<u8>> {
    use elevo_objects::Entry;
    let repository = received.state.repository();
    let mut found = BTreeMap::new();
    block_on(async {
        let mut walk = elevo_engine::Walk::new(repository, received.tree, received.times)
            .await
            .unwrap();
        while let Some(visit) = walk.next().await.unwrap() {
            let name = visit.path.to_string();
            match visit.entry {
                Entry::Directory { .. } => found.insert(name + "/", Vec::new()),
                entry => {
                    let content = repository.bytes(&entry).await.unwrap();
                    found.insert(name, content.to_vec())
                }
            };
        }
    });
    found
}

/// An archive without any checks, as a hostile program would write it.
#[derive(Default)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Raw {
    pub(crate) fn entry(self, name: &str, kind: u8, content: &[u8], target: &str) -> Self {
        self.header(name, kind, content.len() as u64, target, |_| {})
            .content(content)
    }

    pub(crate) fn file(self, name: &str, content: &[u8]) -> Self {
        self.entry(name, b'0', content, "")
    }

    pub(crate) fn header(
        mut self,
        name: &str,
        kind: u8,
        size: u64,
        target: &str,
        change: impl FnOnce(&mut Header),
    ) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::new(kind));
        header.set_mode(0o644);
        header.set_mtime(1);
        header.set_size(size);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        change(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self
    }

    pub(crate) fn content(mut self, content: &[u8]) -> Self {
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn pax(self, records: &[(&str, &str)]) -> Self {
        let mut content = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length.to_string().len() + rest != length {
                length = length.to_string().len() + rest;
            }
            content.extend(format!("{length} {key}={value}\n").into_bytes());
        }
        self.entry("pax", b'x', &content, "")
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}
