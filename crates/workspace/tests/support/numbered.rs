//! Read-only workspaces, and snapshots that can be identified by their files.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use elevo_engine::{ImportOptions, import};
use elevo_objects::SnapshotId;
use elevo_workspace::Workspaces;
use futures::executor::block_on;

use super::{Fixture, id, info, progress};

pub(crate) const FILES: usize = 20;

/// Stores snapshots. All files of a snapshot hold its number, and one file is
/// named after it.
pub(crate) fn numbered(fixture: &Fixture, count: usize) -> Vec<SnapshotId> {
    let directory = tempfile::tempdir().unwrap();
    let mut parents = Vec::new();
    let mut taken = Vec::new();
    for number in 0..count {
        for file in 0..FILES {
            let path = directory.path().join(format!("{file}"));
            fs::write(path, format!("{number}")).unwrap();
        }
        let marker = directory.path().join(format!("only-{number}"));
        fs::write(&marker, "").unwrap();
        let options = ImportOptions {
            threads: 1,
            leave_out: Vec::new(),
            ignoring: None,
        };
        let (repository, from) = (&fixture.repository, directory.path());
        let imported = import(repository, from, &options, &progress()).unwrap();
        let info = elevo_engine::CommitInfo { parents, ..info() };
        let id = block_on(imported.commit(repository, info)).unwrap();
        fs::remove_file(&marker).unwrap();
        parents = vec![id];
        taken.push(id);
    }
    taken
}

/// Creates a read-only workspace.
pub(crate) fn create(
    fixture: &Fixture,
    workspaces: &Workspaces,
    name: &str,
    base: SnapshotId,
) -> PathBuf {
    let created = workspaces.create_read_only(&id(name), base, fixture.now(), None, &progress());
    let files = created.unwrap();
    assert_eq!(workspaces.path(&id(name)).unwrap(), files);
    files
}

pub(crate) fn follow(workspaces: &Workspaces, name: &str, to: SnapshotId) {
    workspaces.follow(&id(name), to, &progress()).unwrap();
}

/// Returns the number in the files of an open directory. All must be the same.
pub(crate) fn number_in(directory: &fs::File) -> usize {
    let inside = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let read = |file| fs::read_to_string(inside.join(format!("{file}"))).unwrap();
    let numbers: Vec<String> = (0..FILES).map(read).collect();
    assert!(
        numbers.iter().all(|number| *number == numbers[0]),
        "{numbers:?}"
    );
    let number = numbers[0].parse().unwrap();
    let names = fs::read_dir(&inside).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), FILES + 1);
    assert!(names.iter().any(|name| *name == *format!("only-{number}")));
    number
}

pub(crate) fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}
