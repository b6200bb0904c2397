//! Random changes of files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use elevo_workspace::NeverFreeze;
use rand::RngExt;
use rand::rngs::SmallRng;

use super::{Fixture, id, info, progress};

/// Runs random sequences of operations of all kinds, also operations that keep
/// size and times, and repeats them in an ordinary directory. Each generation
/// runs in a fork of the one before. The workspace, its changes and its
/// snapshot must all equal that directory.
pub(crate) fn random_changes(fixture: &Fixture, generations: usize) {
    let workspaces = fixture.open();
    let mut name = id("generation-0");
    let mut files = fixture.create(&workspaces, name.as_str());
    let mut random = fixture.random();
    let mut changed = 0;
    for generation in 1..=generations {
        let model = tempfile::tempdir().unwrap();
        copy_all(&files, model.path());
        let mut before = fixture.plain_import(model.path());
        for round in 0..5 {
            for _ in 0..random.random_range(1..12) {
                let mut same = random.clone();
                let mut outcome = change_something(&files, &mut random);
                let mut rename: fn(_, _) -> _ = fs::rename;
                let is_rejected = |error: &std::io::Error| {
                    let is_rootless = fixture.kind.is_private();
                    is_rootless && error.kind() == std::io::ErrorKind::CrossesDevices
                };
                // Overlays in user namespaces cannot rename directories of
                // lower layers; programs like `mv` then copy.
                if outcome.as_ref().is_err_and(is_rejected) {
                    rename = move_by_copying;
                    outcome = change(&files, &mut same.clone(), rename);
                }
                let expected = change(model.path(), &mut same, rename);
                assert_eq!(
                    outcome.is_ok(),
                    expected.is_ok(),
                    "{outcome:?} {expected:?}"
                );
            }
            if round == 2 {
                fixture.wait_for_clock_tick();
            }
            let expected = fixture.plain_import(model.path());
            assert_eq!(
                fixture.plain_import(&files),
                expected,
                "{generation} {round}"
            );
            let changes = workspaces.changes(&name, &progress()).unwrap();
            assert_eq!(changes.tree, expected, "{generation} {round}");
            let taken = fixture.snapshot(&workspaces, name.as_str());
            let tree = fixture.snapshot_of(taken.id).tree;
            assert_eq!(tree, expected, "{generation} {round}");
            changed += usize::from(expected != before);
            before = expected;
        }
        let times = fixture.times(&files);
        let fork = id(&format!("generation-{generation}"));
        let into = std::slice::from_ref(&fork);
        workspaces
            .fork(&name, into, info(), &NeverFreeze, &progress())
            .unwrap();
        files = workspaces.path(&fork).unwrap();
        assert_eq!(fixture.plain_import(&files), before, "{generation}");
        assert_eq!(fixture.times(&files), times, "{generation}");
        if generation > 3 {
            let old = id(&format!("generation-{}", generation - 3));
            workspaces.remove(&old).unwrap();
        }
        name = fork;
    }
    assert!(
        changed > generations * 3,
        "only {changed} sequences changed anything"
    );
}

/// Copies like `cp -a`, hard links included.
fn copy_all(from: &Path, into: &Path) {
    let mut source = from.as_os_str().to_owned();
    source.push("/.");
    let mut command = std::process::Command::new("cp");
    let status = command.arg("-a").arg(source).arg(into).status();
    assert!(status.unwrap().success());
}

/// Runs one operation of a kind that programs use. The operation may fail; then
/// it has changed nothing, or has done the same steps in every directory.
pub(crate) fn change_something(files: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    change(files, random, fs::rename)
}

fn change(
    files: &Path,
    random: &mut SmallRng,
    rename: fn(PathBuf, PathBuf) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let [one, other] = [(); 2].map(|()| files.join(some_path(random)));
    match random.random_range(0..13) {
        0..3 => write(&one, random),
        3 => fs::create_dir_all(&one),
        4 => rename(one, other),
        5 => fs::hard_link(&one, &other),
        6 => symlink("somewhere", &one),
        7 => fs::remove_file(&one),
        8 => fs::remove_dir_all(&one),
        9 => truncate(&one, random),
        10 => fs::set_permissions(
            &one,
            fs::Permissions::from_mode(0o600 | random.random_range(0..0o100)),
        ),
        11 => overwrite_unseen(&one, random),
        _ => fs::remove_file(&one).and_then(|()| fs::create_dir(&one)),
    }
}

/// Moves like `mv` where a directory cannot be renamed.
fn move_by_copying(one: PathBuf, other: PathBuf) -> std::io::Result<()> {
    if other.exists() {
        fs::remove_dir(&other)?;
    }
    fs::create_dir(&other)?;
    copy_all(&one, &other);
    fs::remove_dir_all(one)
}

fn some_path(random: &mut SmallRng) -> String {
    let depth = random.random_range(1..4);
    let part = |_| ["a", "b", "c", "d"][random.random_range(0..4)];
    (0..depth).map(part).collect::<Vec<_>>().join("/")
}

fn write(path: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let length = [3, 3, 3, 100, 40_000][random.random_range(0..5)];
    fs::write(path, vec![random.random::<u8>(); length])
}

fn truncate(path: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    let file = fs::File::options().write(true).open(path)?;
    file.set_len(random.random_range(0..50_000))
}

/// Writes other bytes of the same length, and restores the time.
fn overwrite_unseen(path: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    let stat = fs::metadata(path)?;
    let file = fs::File::options().write(true).open(path)?;
    std::os::unix::fs::FileExt::write_all_at(
        &file,
        &vec![random.random::<u8>(); stat.len() as usize],
        0,
    )?;
    file.set_modified(stat.modified()?)
}
