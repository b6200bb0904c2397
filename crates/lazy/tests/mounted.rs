//! Compares a mounted snapshot with one that was checked out.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use elevo_core::{TenantId, Timestamp};
use elevo_engine::{
    CheckoutOptions, CommitInfo, ExistingContent, ImportOptions, MemoryStore, Progress,
};
use elevo_engine::{Repository, checkout, import};
use elevo_lazy::{Mount, Options, mount};
use elevo_objects::Snapshot;
use futures::executor::block_on;
use proptest::prelude::*;
use tempfile::TempDir;

fn repository() -> Repository {
    Repository::new(
        Arc::new(MemoryStore::new()),
        TenantId::new([7; 16]),
        1 << 20,
    )
}

fn snapshot_of(repository: &Repository, directory: &Path) -> Snapshot {
    let options = ImportOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let info = CommitInfo {
        parents: Vec::new(),
        author: "tester".into(),
        message: "lazy".into(),
        created: Timestamp::new(1_700_000_000, 0).unwrap(),
        labels: BTreeMap::new(),
        reference: None,
    };
    let imported = import(repository, directory, &options, &Progress::new()).unwrap();
    let id = block_on(imported.commit(repository, info)).unwrap();
    block_on(repository.snapshot(id)).unwrap()
}

/// Unmounts when the test ends, even if it fails.
struct Mounted(Option<Mount>, TempDir);

impl Mounted {
    fn path(&self) -> &Path {
        self.1.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.0.take() {
            mount.unmount().unwrap();
        }
    }
}

fn mounted(repository: &Repository, snapshot: &Snapshot) -> Mounted {
    let at = tempfile::tempdir().unwrap();
    let me = fs::metadata(at.path()).unwrap();
    let options = Options {
        for_all: false,
        ..Options::new((me.uid(), me.gid()), 4)
    };
    let mount = mount(repository, snapshot, at.path(), options).expect("needs /dev/fuse and root");
    Mounted(Some(mount), at)
}

/// Returns all paths below a directory with their attributes and contents.
fn seen(root: &Path) -> BTreeMap<PathBuf, (u32, u64, SystemTime, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (path, stat) = (entry.path(), entry.metadata().unwrap());
            assert_eq!(entry.file_type().unwrap(), stat.file_type());
            let (size, content) = if stat.is_dir() {
                open.push(path.clone());
                (0, Vec::new())
            } else if stat.is_symlink() {
                let target = fs::read_link(&path).unwrap().into_os_string();
                (stat.len(), target.into_encoded_bytes())
            } else {
                (stat.len(), fs::read(&path).unwrap())
            };
            let modified = stat.modified().unwrap();
            let relative = path.strip_prefix(root).unwrap().to_path_buf();
            let new = all.insert(relative, (stat.mode(), size, modified, content));
            assert!(new.is_none(), "listed twice");
        }
    }
    all
}

fn numbers(root: &Path) -> Vec<u64> {
    let mut all = vec![fs::metadata(root).unwrap().ino()];
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(io::Result::unwrap) {
            let stat = entry.metadata().unwrap();
            assert_eq!(
                std::os::unix::fs::DirEntryExt::ino(&entry),
                stat.ino(),
                "{entry:?}"
            );
            all.push(stat.ino());
            if stat.is_dir() {
                open.push(entry.path());
            }
        }
    }
    all.sort_unstable();
    all
}

fn checked_out(repository: &Repository, snapshot: &Snapshot) -> TempDir {
    let out = tempfile::tempdir().unwrap();
    let options = CheckoutOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
        force: false,
        clone_source: None,
        owner: None,
    };
    let (present, progress) = (ExistingContent::Unknown, Progress::new());
    checkout(
        repository,
        snapshot,
        out.path(),
        &present,
        &options,
        &progress,
    )
    .unwrap();
    out
}

fn check(repository: &Repository, directory: &Path) {
    let snapshot = snapshot_of(repository, directory);
    let out = checked_out(repository, &snapshot);
    let mut at = mounted(repository, &snapshot);
    let expected = seen(out.path());
    assert_eq!(seen(at.path()), expected);
    // Again, from the cache of the kernel.
    assert_eq!(seen(at.path()), expected);
    let count = expected.len() as u64 + 1;
    assert_eq!(numbers(at.path()), (1..=count).collect::<Vec<_>>());
    at.0.take().unwrap().unmount().unwrap();
    assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0);
}

fn write(path: &Path, content: &[u8], mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // A path that is already a directory stays one.
    if fs::write(path, content).is_ok() {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    next.take(length).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_mounted_snapshot_equals_a_checkout(
        files in prop::collection::vec(
            (
                prop::collection::vec(prop::sample::select(vec!["a", "b", "é", "d d", "e.txt"]), 1..4),
                prop_oneof![4 => 0..100_usize, 1 => 0..600_000_usize],
                prop::sample::select(vec![0o644, 0o755, 0o600, 0o400]),
                any::<bool>(),
            ),
            0..25,
        ),
    ) {
        let source = tempfile::tempdir().unwrap();
        for (seed, (names, length, mode, is_link)) in (0_u64..).zip(files) {
            let directories = &names[..names.len() - 1];
            let mut directory = source.path().to_path_buf();
            directory.extend(directories);
            if fs::create_dir_all(&directory).is_err() {
                continue;
            }
            let path = directory.join(names[names.len() - 1]);
            match is_link {
                true => drop(symlink(format!("to/{seed}"), &path)),
                false => write(&path, &noise(seed, length), mode),
            }
        }
        check(&repository(), source.path());
    }
}

#[test]
fn each_entry_of_a_large_directory_is_listed_once() {
    let source = tempfile::tempdir().unwrap();
    for n in 0..5_000 {
        write(&source.path().join(format!("many/{n:05}")), b"x", 0o644);
        if n % 10 == 0 {
            write(&source.path().join(format!("many/d{n}/below")), b"y", 0o644);
        }
    }
    check(&repository(), source.path());
}

#[test]
fn missing_paths_are_not_found_and_writes_are_rejected() {
    let source = tempfile::tempdir().unwrap();
    write(&source.path().join("dir/file"), b"content", 0o666);
    let repository = repository();
    let at = mounted(&repository, &snapshot_of(&repository, source.path()));
    let at = at.path();
    for _ in 0..2 {
        let none = fs::read(at.join("dir/other")).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        let none = fs::read(at.join("dir/file/below")).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotADirectory);
    }
    let rejected = [
        fs::write(at.join("dir/file"), "other"),
        fs::write(at.join("new"), "new"),
        fs::remove_file(at.join("dir/file")),
        fs::create_dir(at.join("d")),
        fs::rename(at.join("dir"), at.join("moved")),
        fs::set_permissions(at.join("dir/file"), Permissions::from_mode(0o600)),
    ];
    for rejected in rejected {
        assert_eq!(
            rejected.unwrap_err().kind(),
            io::ErrorKind::ReadOnlyFilesystem
        );
    }
    assert_eq!(fs::read(at.join("dir/file")).unwrap(), b"content");
}

#[test]
fn many_threads_read_large_files_in_order_and_at_random() {
    let source = tempfile::tempdir().unwrap();
    let data = noise(5, 24 << 20);
    write(&source.path().join("large"), &data, 0o644);
    let sparse = File::create(source.path().join("sparse")).unwrap();
    sparse.set_len(15 << 40).unwrap();
    sparse.write_all_at(b"end", (15 << 40) - 3).unwrap();
    let repository = repository();
    let at = mounted(&repository, &snapshot_of(&repository, source.path()));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (at, data) = (at.path(), &data);
            scope.spawn(move || {
                let mut file = File::open(at.join("large")).unwrap();
                for n in 0..200_u64 {
                    let offset = (n * 7_919 + thread * 104_729) * 131 % data.len() as u64;
                    let mut some = vec![0; 10_000];
                    let read = file.read_at(&mut some, offset).unwrap();
                    let offset = offset as usize;
                    assert_eq!(some[..read], data[offset..offset + read]);
                    assert!(read == some.len() || offset + read == data.len());
                }
                let mut all = Vec::new();
                file.read_to_end(&mut all).unwrap();
                assert!(all == *data);
            });
        }
    });
    let sparse = File::open(at.path().join("sparse")).unwrap();
    assert_eq!(sparse.metadata().unwrap().len(), 15 << 40);
    let mut end = [0; 5];
    sparse.read_exact_at(&mut end, (15 << 40) - 5).unwrap();
    assert_eq!(&end, b"\0\0end");
}

/// A program that copies a sparse file, as an overlay does, skips the holes
/// instead of reading zeros for hours.
#[test]
fn holes_are_reported() {
    use rustix::fs::{SeekFrom, seek};
    const HOLE: u64 = 1 << 42;
    let source = tempfile::tempdir().unwrap();
    let file = File::create(source.path().join("file")).unwrap();
    file.write_all_at(b"begins", 0).unwrap();
    file.write_all_at(b"ends", HOLE).unwrap();
    File::create(source.path().join("empty")).unwrap();
    fs::write(source.path().join("full"), vec![1; 3 << 20]).unwrap();
    let hollow = File::create(source.path().join("hollow")).unwrap();
    hollow.set_len(HOLE).unwrap();
    let repository = repository();
    let mounted = mounted(&repository, &snapshot_of(&repository, source.path()));
    let open = |name: &str| File::open(mounted.path().join(name)).unwrap();
    let none = Err(rustix::io::Errno::NXIO);
    let file = open("file");
    let hole = seek(&file, SeekFrom::Hole(0)).unwrap();
    assert!((6..1 << 20).contains(&hole), "{hole}");
    assert_eq!(seek(&file, SeekFrom::Hole(hole)), Ok(hole));
    assert_eq!(seek(&file, SeekFrom::Hole(HOLE / 2)), Ok(HOLE / 2));
    assert_eq!(seek(&file, SeekFrom::Data(3)), Ok(3));
    let data = seek(&file, SeekFrom::Data(HOLE / 2)).unwrap();
    assert!((HOLE - (1 << 20)..=HOLE).contains(&data), "{data}");
    assert_eq!(seek(&file, SeekFrom::Hole(data)), Ok(HOLE + 4));
    assert_eq!(seek(&file, SeekFrom::Data(HOLE + 4)), none);
    let full = open("full");
    assert_eq!(seek(&full, SeekFrom::Hole(1 << 20)), Ok(3 << 20));
    assert_eq!(seek(&full, SeekFrom::Data(1 << 20)), Ok(1 << 20));
    assert_eq!(seek(open("empty"), SeekFrom::Data(0)), none);
    let hollow = open("hollow");
    assert_eq!(seek(&hollow, SeekFrom::Hole(5)), Ok(5));
    assert_eq!(seek(&hollow, SeekFrom::Data(5)), none);
}
