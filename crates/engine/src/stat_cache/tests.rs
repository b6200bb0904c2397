use std::fs;
use std::path::Path;

use elevo_core::Name;
use elevo_objects::{Hash, SnapshotId, Tree};

use super::*;

const READ: SnapshotId = SnapshotId(Hash::from_bytes([7; 32]));
const FILES: u64 = 600;

fn fingerprint(n: u64) -> Fingerprint {
    Fingerprint {
        mode: 0o100_644,
        size: n,
        modified: (n as i64, 1),
        changed: (n as i64, 2),
        inode: n + 1,
    }
}

const fn cached(fingerprint: Fingerprint, below: Option<RecordRef>) -> CachedStat {
    CachedStat {
        fingerprint,
        has_attributes: true,
        below,
    }
}

fn name(n: u64) -> Name {
    Name::copy_from(format!("{n:04}").as_bytes()).unwrap()
}

fn tree(n: u64) -> Tree {
    Tree {
        root: Some(Hash::from_bytes([n as u8; 32])),
        count: n,
        bytes: n,
    }
}

/// Writes a root with files and with two directories of files, some of which
/// have another size than before.
fn write(path: &Path, changed: impl Fn(&str, u64) -> bool) {
    let new = NewStatCache::begin(path).unwrap();
    let old = new.old();
    let seen = old.root().and_then(|root| old.directory(root));
    let note = |directory: &str, writer: &mut DirectoryWriter<'_>| {
        for n in 0..FILES {
            let mut fingerprint = fingerprint(n);
            if changed(directory, n) {
                fingerprint.size += 1;
            }
            writer.push(&name(n), cached(fingerprint, None)).unwrap();
        }
    };
    let mut writer = new.directory(seen.as_ref());
    note("", &mut writer);
    for directory in ["a", "b"] {
        let seen = below(&old, directory);
        let mut inside = new.directory(seen.as_ref());
        note(directory, &mut inside);
        let inside = inside.finish((tree(FILES), None)).unwrap();
        let name = Name::copy_from(directory.as_bytes()).unwrap();
        writer
            .push(&name, cached(fingerprint(1), Some(inside)))
            .unwrap();
    }
    new.set_root(writer.finish((tree(1), None)).unwrap());
    new.finish(READ).unwrap();
}

fn root(cache: &StatCache) -> Option<CachedDirectory> {
    cache.directory(cache.root()?)
}

fn below(cache: &StatCache, name: &str) -> Option<CachedDirectory> {
    let seen = root(cache)?.find(name.as_bytes())?;
    cache.directory(seen.below?)
}

/// Returns whether all names of a directory could be read, and their number.
fn names(seen: &mut CachedDirectory) -> (bool, u64) {
    let mut count = 0;
    let is_whole = seen.each(|_, _| {
        count += 1;
        true
    });
    (is_whole, count)
}

fn find(seen: &mut CachedDirectory, n: u64) -> Option<Fingerprint> {
    seen.find(&name(n)).map(|seen| seen.fingerprint)
}

#[test]
fn recorded_metadata_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stat");
    write(&path, |_, _| false);
    let cache = StatCache::open(&path);
    assert_eq!(cache.snapshot(), Some(READ));
    assert_eq!(root(&cache).unwrap().read_as(), (tree(1), None));
    let mut inside = below(&cache, "a").unwrap();
    assert_eq!(inside.read_as(), (tree(FILES), None));
    for n in [3, 4, 50, 599] {
        assert_eq!(find(&mut inside, n), Some(fingerprint(n)));
    }
    assert_eq!(find(&mut inside, FILES), None);
    inside.rewind();
    for n in 0..FILES {
        let seen = inside.next(&name(n)).unwrap();
        assert_eq!(seen.fingerprint, fingerprint(n));
    }
    assert!(inside.is_at_end());
    inside.rewind();
    assert_eq!(inside.next(&name(1)), None, "0 comes first");
    assert!(below(&cache, "c").is_none());
}

#[test]
fn a_change_writes_little_and_the_file_stays_small() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stat");
    write(&path, |_, _| false);
    let whole = fs::metadata(&path).unwrap().len();
    write(&path, |_, _| false);
    let again = fs::metadata(&path).unwrap().len();
    assert_eq!(again, whole, "nothing changed");
    let mut largest = 0;
    for round in 0..100 {
        write(&path, |directory, n| directory == "a" && n == round);
        let cache = StatCache::open(&path);
        let mut inside = below(&cache, "a").unwrap();
        assert_eq!(find(&mut inside, round).unwrap().size, round + 1);
        assert_eq!(find(&mut inside, round + 1), Some(fingerprint(round + 1)));
        let length = fs::metadata(&path).unwrap().len();
        if round == 0 {
            assert!(length - whole < whole / 3, "{length} after {whole}");
        }
        largest = length.max(largest);
    }
    assert!(largest > (1 << 20) + whole, "it grows: {largest}");
    assert!(largest < (1 << 20) + 4 * whole, "{largest} after {whole}");
}

#[test]
fn a_file_changed_since_the_scan_began_is_never_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stat");
    let new = NewStatCache::begin(&path).unwrap();
    let late = |stat: fs::Metadata| {
        use std::os::unix::fs::MetadataExt;
        Fingerprint {
            changed: (stat.ctime(), stat.ctime_nsec() as u32),
            ..fingerprint(1)
        }
    };
    let late = late(fs::metadata(&path).unwrap());
    let mut writer = new.directory(None);
    writer.push(&name(1), cached(late, None)).unwrap();
    writer.push(&name(2), cached(fingerprint(2), None)).unwrap();
    new.set_root(writer.finish((tree(2), None)).unwrap());
    new.finish(READ).unwrap();
    let mut seen = root(&StatCache::open(&path)).unwrap();
    let found = find(&mut seen, 1).unwrap();
    assert_ne!(found, late);
    assert!(found.has_equal_mode_and_time(&late));
    assert_eq!(find(&mut seen, 2), Some(fingerprint(2)));
}

#[test]
fn the_old_state_counts_until_the_new_one_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stat");
    write(&path, |_, _| false);
    let new = NewStatCache::begin(&path).unwrap();
    let mut writer = new.directory(None);
    (0..9_999).for_each(|n| writer.push(&name(n), cached(fingerprint(n), None)).unwrap());
    writer.finish((tree(2), None)).unwrap();
    drop(new);
    let cache = StatCache::open(&path);
    let mut inside = below(&cache, "b").unwrap();
    assert_eq!(find(&mut inside, 77), Some(fingerprint(77)));
    write(&path, |_, _| true);
    let cache = StatCache::open(&path);
    assert_eq!(find(&mut below(&cache, "b").unwrap(), 77).unwrap().size, 78);
}

#[test]
fn a_cache_with_two_names_is_copied_before_it_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stat");
    let other = directory.path().join("other");
    write(&path, |_, _| false);
    fs::hard_link(&path, &other).unwrap();
    let before = fs::read(&other).unwrap();
    write(&path, |_, n| n == 3);
    assert_eq!(fs::read(&other).unwrap(), before);
    let size = |path: &Path| {
        let mut root = root(&StatCache::open(path)).unwrap();
        find(&mut root, 3).unwrap().size
    };
    assert_eq!((size(&path), size(&other)), (4, 3));
}

#[test]
fn a_damaged_cache_lacks_names_or_has_the_previous_state() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stat");
    write(&path, |_, _| false);
    write(&path, |_, n| n == 50);
    let good = fs::read(&path).unwrap();
    let mut damaged = false;
    let mut check = |at: usize| {
        let cache = StatCache::open(&path);
        for directory in ["a", "b"] {
            let Some(mut inside) = below(&cache, directory) else {
                continue;
            };
            let changed = Fingerprint {
                size: 51,
                ..fingerprint(50)
            };
            let found = find(&mut inside, 50);
            assert!(
                found.is_none_or(|found| found == changed || found == fingerprint(50)),
                "{at}"
            );
            let found = find(&mut inside, 60);
            assert!(found.is_none_or(|found| found == fingerprint(60)), "{at}");
            let (is_whole, names) = names(&mut inside);
            assert!(!is_whole || names == FILES, "{at}");
            damaged |= !is_whole;
        }
        assert!(cache.snapshot().is_none_or(|read| read == READ));
    };
    for at in (0..good.len()).step_by(497) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, bad).unwrap();
        check(at);
    }
    for length in (0..good.len()).step_by(4_999) {
        fs::write(&path, &good[..length]).unwrap();
        check(length);
        // The damaged cache can be continued.
        write(&path, |_, n| n == 7);
        let mut inside = below(&StatCache::open(&path), "a").unwrap();
        assert_eq!(find(&mut inside, 7).unwrap().size, 8);
    }
    assert!(damaged, "some directory lacks a page");
}
