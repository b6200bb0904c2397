use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, Mode};
use tempfile::TempDir;

use super::put::Put;
use super::stat::{Condition, FileStat, Kind, Tags};
use super::*;
use crate::platform::clock;

fn root() -> (TempDir, Root) {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::open(directory.path(), None).unwrap();
    (directory, root)
}

fn put(path: &Path) -> Put<'_> {
    static ALWAYS: Condition = Condition {
        matches: None,
        is_new: false,
    };
    Put {
        path,
        mode: None,
        parents: true,
        sync: false,
        condition: &ALWAYS,
        now: clock::system(),
    }
}

fn write(root: &Root, path: impl AsRef<Path>, content: &[u8]) -> Result<(FileStat, bool)> {
    let mut file = root.new_file(Path::new("/tmp")).unwrap();
    file.write(content).unwrap();
    root.put(file, &put(path.as_ref()))
}

fn read(root: &Root, path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let (file, stat) = root.open_file(path.as_ref())?;
    Ok(file.read_at(0, stat.size as usize).unwrap())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn a_file_is_written_and_read() {
    let (directory, root) = root();
    let (stat, is_new) = write(&root, "a/b/file", b"one").unwrap();
    assert!(is_new);
    assert_eq!((stat.size, stat.mode), (3, 0o644));
    assert_eq!(read(&root, "a/b/file").unwrap(), b"one");
    let path = directory.path().join("a/b/file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2750)).unwrap();
    let (stat, is_new) = write(&root, "a/b/file", b"two!").unwrap();
    assert!(!is_new);
    // A write would clear the special bits, too.
    assert_eq!(stat.mode, 0o750);
    let mut file = root.new_file(Path::new("/tmp")).unwrap();
    file.write(b"three").unwrap();
    let wish = Put {
        mode: Some(0o600),
        sync: true,
        ..put(Path::new("a/b/file"))
    };
    let (stat, _) = root.put(file, &wish).unwrap();
    assert_eq!(stat.mode, 0o600);
    assert_eq!(fs::read(&path).unwrap(), b"three");
    assert_eq!(names(&directory.path().join("a/b")), ["file"]);
    let (opened, found) = root.open_file(Path::new("a/b/file")).unwrap();
    assert_eq!(found.tag(), stat.tag());
    assert_eq!(opened.read_at(1, 3).unwrap(), b"hre");
    let beyond = opened.read_at(3, 3).unwrap_err();
    assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_file_that_is_not_complete_leaves_nothing_behind() {
    let (directory, root) = root();
    write(&root, "file", b"old").unwrap();
    let mut file = root.new_file(Path::new("/tmp")).unwrap();
    file.write(&[7; 100_000]).unwrap();
    assert_eq!(names(directory.path()), ["file"]);
    drop(file);
    assert_eq!(names(directory.path()), ["file"]);
    assert_eq!(read(&root, "file").unwrap(), b"old");
}

#[test]
fn a_file_system_without_unnamed_files_gets_a_copy() {
    let (directory, root) = root();
    let elsewhere = tempfile::tempdir().unwrap();
    // The remains of a server that was killed at the last step.
    fs::write(directory.path().join(".elevo"), "remains").unwrap();
    for (content, is_new) in [(b"one", true), (b"two", false)] {
        let mut file = root.new_elsewhere(elsewhere.path()).unwrap();
        file.write(content).unwrap();
        assert_eq!(names(elsewhere.path()), [""; 0]);
        let wish = Put {
            mode: Some(0o640),
            sync: true,
            ..put(Path::new("file"))
        };
        let (stat, found) = root.put(file, &wish).unwrap();
        assert_eq!((stat.mode, found), (0o640, is_new));
        assert_eq!(read(&root, "file").unwrap(), content);
        assert_eq!(names(directory.path()), ["file"]);
    }
}

#[test]
fn a_directory_with_its_own_store_can_have_its_files_replaced() {
    let (directory, root) = root();
    fs::create_dir(directory.path().join(".elevo")).unwrap();
    write(&root, "file", b"one").unwrap();
    write(&root, "file", b"two").unwrap();
    assert_eq!(read(&root, "file").unwrap(), b"two");
    assert_eq!(names(directory.path()), [".elevo", "file"]);
    for path in [".elevo/notes", "a/.elevo/b"] {
        let refused = write(&root, path, b"");
        assert!(matches!(refused, Err(FileError::Invalid { .. })), "{path}");
        let refused = root.make_directory_at(Path::new(path), None, true);
        assert!(matches!(refused, Err(FileError::Invalid { .. })), "{path}");
        for (from, to) in [("file", path), (path, "file")] {
            let refused = root.rename(Path::new(from), Path::new(to), true);
            assert!(matches!(refused, Err(FileError::Invalid { .. })), "{path}");
        }
    }
    assert!(matches!(
        write(&root, "a/.elevo", b""),
        Err(FileError::Invalid { .. })
    ));
}

#[test]
fn a_change_is_made_only_if_its_condition_is_true() {
    let (_directory, root) = root();
    let change = |condition: &Condition, content: &[u8]| {
        let mut file = root.new_file(Path::new("/tmp")).unwrap();
        file.write(content).unwrap();
        let wish = Put {
            condition,
            ..put(Path::new("file"))
        };
        root.put(file, &wish).map(|(stat, _)| stat)
    };
    let tag = |stat: &FileStat| Condition {
        matches: Some(Tags::These(vec!["other".into(), stat.tag()])),
        is_new: false,
    };
    let is_new = Condition {
        matches: None,
        is_new: true,
    };
    let exists = Condition {
        matches: Some(Tags::Any),
        is_new: false,
    };
    let refused = |done: Result<FileStat>| matches!(done, Err(FileError::Precondition(_)));
    assert!(refused(change(&exists, b"0")));
    let first = change(&is_new, b"1").unwrap();
    assert!(refused(change(&is_new, b"2")));
    let second = change(&tag(&first), b"2").unwrap();
    assert!(refused(change(&tag(&first), b"3")));
    assert_eq!(read(&root, "file").unwrap(), b"2");
    let path = Path::new("file");
    assert!(root.remove(path, false, &tag(&first)).is_err());
    root.remove(path, false, &tag(&second)).unwrap();
    let gone = root.remove(path, false, &tag(&second));
    assert!(matches!(gone, Err(FileError::Precondition(_))));
}

#[test]
fn every_write_changes_the_tag() {
    let (directory, root) = root();
    let path = directory.path().join("file");
    let mut seen = Vec::new();
    for round in 0..200 {
        // A process writes content of the same size, in the same clock tick.
        let stat = match round % 2 {
            0 => write(&root, "file", &[round]).unwrap().0,
            _ => {
                fs::write(&path, [round]).unwrap();
                let found = root.open_file(Path::new("file")).unwrap().1;
                // A tag without this certainty is weak.
                if found.unsettled(clock::system()).is_some() {
                    continue;
                }
                found
            }
        };
        assert!(!seen.contains(&stat.tag()), "round {round}");
        seen.push(stat.tag());
    }
}

#[test]
fn a_tag_is_strong_when_no_later_write_can_leave_it_unchanged() {
    let (directory, root) = root();
    fs::write(directory.path().join("file"), "x").unwrap();
    let stat = root.stat(Path::new("file")).unwrap();
    let changed = stat.modified_at();
    let just_now = changed + Duration::from_millis(1);
    assert_eq!(stat.unsettled(just_now), Some(Duration::from_millis(9)));
    assert!(stat.etag(just_now).starts_with("W/\""));
    let later = changed + Duration::from_millis(10);
    assert_eq!(stat.unsettled(later), None);
    assert_eq!(stat.etag(later), format!("\"{}\"", stat.tag()));
    // Another clock is ahead: the wait is short nevertheless.
    assert_eq!(stat.unsettled(UNIX_EPOCH), Some(Duration::from_millis(10)));
    let (stat, _) = write(&root, "own", b"x").unwrap();
    assert_eq!(stat.unsettled(stat.modified_at()), None);
}

#[test]
fn accepts_times_that_do_not_fit() {
    let (directory, root) = root();
    write(&root, "file", b"x").unwrap();
    let path = directory.path().join("file");
    for seconds in ["9223372036854775807", "-9223372036854775808"] {
        let touched = std::process::Command::new("touch")
            .args(["-d", &format!("@{seconds}")])
            .arg(&path)
            .status();
        // The file system may reject the time.
        let _ = touched.unwrap();
        let stat = root.stat(Path::new("file")).unwrap();
        stat.modified_at();
        stat.etag(clock::system());
    }
}

#[test]
fn names_and_paths_have_the_limits_of_the_kernel() {
    let (_directory, root) = root();
    let longest = "n".repeat(255);
    write(&root, &longest, b"long").unwrap();
    assert_eq!(read(&root, &longest).unwrap(), b"long");
    let too_long = "n".repeat(256);
    for done in [
        write(&root, &too_long, b"").map(drop),
        write(&root, Path::new(&too_long).join("file"), b"").map(drop),
        read(&root, &too_long).map(drop),
        root.make_directory_at(Path::new(&too_long), None, true)
            .map(drop),
        root.remove(Path::new(&too_long), false, &Condition::default()),
        root.list(Path::new(&too_long), b"", 1).map(drop),
    ] {
        assert!(matches!(done, Err(FileError::Invalid { .. })), "{done:?}");
    }
    let deep: String = "d/".repeat(2046) + "f";
    write(&root, &deep, b"deep").unwrap();
    assert_eq!(read(&root, &deep).unwrap(), b"deep");
    let deeper = "d/".repeat(2050);
    assert!(matches!(
        read(&root, &deeper),
        Err(FileError::Invalid { .. })
    ));
    let odd = Path::new(OsStr::from_bytes(b"odd \xff\n%00"));
    write(&root, odd, b"odd").unwrap();
    assert_eq!(read(&root, odd).unwrap(), b"odd");
}

#[test]
fn links_out_of_the_root_are_not_followed() {
    let (directory, root) = root();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("dir/file"), "inside").unwrap();
    let up = format!(
        "../{}/secret",
        outside.path().file_name().unwrap().to_str().unwrap()
    );
    symlink(outside.path().join("secret"), at("absolute")).unwrap();
    symlink(&up, at("upwards")).unwrap();
    symlink(outside.path(), at("out")).unwrap();
    symlink("out/secret", at("twice")).unwrap();
    symlink("/proc/self/root/etc/passwd", at("magic")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink("../dir/file", at("dir/inside")).unwrap();
    symlink("dir", at("alias")).unwrap();
    for path in [
        "absolute",
        "upwards",
        "out/secret",
        "twice",
        "magic",
        "loop",
    ] {
        let found = root.open_file(Path::new(path));
        assert!(matches!(found, Err(FileError::LeadsOut(_))), "{path}");
    }
    assert_eq!(read(&root, "dir/inside").unwrap(), b"inside");
    assert_eq!(read(&root, "alias/inside").unwrap(), b"inside");
    let nothing = Condition::default();
    for done in [
        write(&root, "out/secret", b"x").map(drop),
        write(&root, "out/new/file", b"x").map(drop),
        root.remove(Path::new("out/secret"), true, &nothing),
        root.rename(Path::new("dir/file"), Path::new("out/file"), true)
            .map(drop),
        root.rename(Path::new("out/secret"), Path::new("mine"), true)
            .map(drop),
        root.make_directory_at(Path::new("out/new"), None, true)
            .map(drop),
        root.list(Path::new("out"), b"", 10).map(drop),
    ] {
        assert!(matches!(done, Err(FileError::LeadsOut(_))), "{done:?}");
    }
    // A change acts on the link, and not on its target.
    write(&root, "absolute", b"mine").unwrap();
    root.remove(Path::new("out"), true, &nothing).unwrap();
    root.rename(Path::new("upwards"), Path::new("moved"), false)
        .unwrap();
    let moved = root.stat(Path::new("moved")).unwrap();
    assert_eq!(moved.target.as_deref(), Some(up.as_bytes()));
    write(&root, "alias/new", b"through a link inside").unwrap();
    assert_eq!(names(&at("dir")), ["file", "inside", "new"]);
    assert_eq!(names(outside.path()), ["secret"]);
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn a_link_that_takes_the_place_of_a_directory_leads_nowhere() {
    let (directory, root) = root();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "secret").unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("real")).unwrap();
    fs::write(at("real/file"), "inside").unwrap();
    symlink(outside.path(), at("link")).unwrap();
    let is_done = AtomicBool::new(false);
    fs::rename(at("real"), at("dir")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each exchange puts the other of the two at `dir`.
            while !is_done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, at("dir"), CWD, at("link"), flags).unwrap();
            }
        });
        let (mut read_inside, mut refused) = (0, 0);
        for round in 0..20_000 {
            match read(&root, "dir/file") {
                Ok(content) => {
                    assert_eq!(content, b"inside");
                    read_inside += 1;
                }
                Err(_) => refused += 1,
            }
            let _ = write(&root, format!("dir/new/{}", round % 10), b"x");
            let _ = write(&root, "dir/file", b"inside");
            let _ = root.remove(Path::new("dir/new"), true, &Condition::default());
            let _ = root.make_directory_at(Path::new("dir/made"), Some(0o700), true);
            let _ = root.list(Path::new("dir"), b"", 10);
            if read_inside > 200 && refused > 200 {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(names(outside.path()), ["file"]);
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"secret");
}

#[test]
fn pipes_sockets_and_devices_are_not_opened() {
    let (directory, root) = root();
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(
        CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(directory.path().join("socket")).unwrap();
    for name in ["pipe", "socket"] {
        let found = root.open_file(Path::new(name));
        assert!(matches!(found, Err(FileError::NotAFile(_))), "{name}");
        assert_eq!(root.stat(Path::new(name)).unwrap().kind, Kind::Other);
    }
    let devices = Root::open(Path::new("/dev"), None).unwrap();
    let found = devices.open_file(Path::new("null"));
    assert!(matches!(found, Err(FileError::NotAFile(_))));
    // An upload replaces a pipe, and does not write into it.
    write(&root, "pipe", b"file").unwrap();
    assert_eq!(read(&root, "pipe").unwrap(), b"file");
}

#[test]
fn another_name_of_a_replaced_file_keeps_its_content() {
    let (directory, root) = root();
    write(&root, "one", b"old").unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    fs::hard_link(&one, &other).unwrap();
    write(&root, "one", b"new").unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"old");
    assert_eq!(fs::metadata(&other).unwrap().nlink(), 1);
}

#[test]
fn directories_and_files_in_the_way_are_named() {
    let (directory, root) = root();
    write(&root, "dir/file", b"x").unwrap();
    let nothing = Condition::default();
    let path = Path::new;
    let is_directory = |done: Result<()>| matches!(done, Err(FileError::IsDirectory(_)));
    let not_directory = |done: Result<()>| matches!(done, Err(FileError::NotDirectory(_)));
    assert!(is_directory(read(&root, "dir").map(drop)));
    assert!(is_directory(write(&root, "dir", b"").map(drop)));
    assert!(not_directory(write(&root, "dir/file/x", b"").map(drop)));
    assert!(not_directory(read(&root, "dir/file/x").map(drop)));
    assert!(not_directory(root.list(path("dir/file"), b"", 1).map(drop)));
    let kept = root.remove(path("dir"), false, &nothing);
    assert!(matches!(kept, Err(FileError::NotEmpty(_))));
    for whole in [
        write(&root, "", b"").map(drop),
        root.remove(path(""), true, &nothing),
        root.rename(path(""), path("x"), true).map(drop),
    ] {
        assert!(matches!(whole, Err(FileError::Invalid { .. })));
    }
    write(&root, "other", b"y").unwrap();
    let exists = root.rename(path("other"), path("dir/file"), false);
    assert!(matches!(exists, Err(FileError::Exists(_))));
    root.rename(path("other"), path("dir/file"), true).unwrap();
    assert_eq!(read(&root, "dir/file").unwrap(), b"y");
    let into_itself = root.rename(path("dir"), path("dir/below"), false);
    assert!(matches!(into_itself, Err(FileError::Invalid { .. })));
    let missing = root.rename(path("none"), path("x"), false);
    assert!(matches!(missing, Err(FileError::NotFound(missing)) if missing == path("none")));
    let (stat, is_new) = root
        .make_directory_at(path("a/b"), Some(0o700), true)
        .unwrap();
    assert_eq!(
        (stat.kind, stat.mode, is_new),
        (Kind::Directory, 0o700, true)
    );
    assert!(!root.make_directory_at(path("a/b"), None, true).unwrap().1);
    let file = root.make_directory_at(path("dir/file"), None, true);
    assert!(matches!(file, Err(FileError::Exists(_))));
    let no_parent = root.make_directory_at(path("c/d"), None, false);
    assert!(matches!(no_parent, Err(FileError::NotFound(_))));
    assert_eq!(names(directory.path()), ["a", "dir"]);
}

#[test]
fn a_large_directory_is_listed_in_pages() {
    let (directory, root) = root();
    let mut expected = Vec::new();
    for number in 0..2500 {
        let name = format!("file-{number}");
        fs::write(directory.path().join(&name), "").unwrap();
        expected.push(name.into_bytes());
    }
    expected.sort();
    let (mut found, mut after) = (Vec::new(), Vec::new());
    loop {
        let page = root.list(Path::new(""), &after, 1000).unwrap();
        assert!(page.entries.len() <= 1000);
        found.extend(page.entries.into_iter().map(|(name, _)| name));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(found, expected);
    let page = root.list(Path::new(""), b"file-998", 2).unwrap();
    assert_eq!(page.entries.len(), 1);
    assert_eq!(page.next, None);
}

#[test]
fn a_tree_that_is_deeper_than_the_descriptors_is_deleted() {
    let (directory, root) = root();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "kept").unwrap();
    fs::create_dir(directory.path().join("deep")).unwrap();
    let mut inner =
        rustix::fs::open(directory.path().join("deep"), DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..5000 {
        rustix::fs::mkdirat(&inner, "d", Mode::from_raw_mode(0o755)).unwrap();
        rustix::fs::symlinkat(outside.path(), &inner, "link").unwrap();
        inner = enter(&inner, OsStr::new("d")).unwrap();
    }
    let done = root.remove(Path::new("deep"), true, &Condition::default());
    done.unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
    assert_eq!(names(outside.path()), ["file"]);
}
