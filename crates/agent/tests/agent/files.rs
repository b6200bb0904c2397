use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use elevo_agent_link::{FileCondition, FileFailure, FileKind, LinkError, PutFile};
use elevo_agent_proto::v1;

use crate::support::{Pair, until, within};

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn failure<T>(result: Result<T, LinkError>) -> FileFailure {
    match result {
        Err(LinkError::File(failure)) => failure,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("the operation succeeded"),
    }
}

async fn read(pair: &Pair, path: &Path) -> Result<Vec<u8>, LinkError> {
    let file = within(pair.link.open_file(bytes(path))).await?;
    let size = file.stat.size;
    let mut stream = file.read(0, size);
    let mut content = Vec::new();
    while let Some(data) = within(stream.next_data()).await.unwrap() {
        content.extend_from_slice(&data);
    }
    Ok(content)
}

async fn put(pair: &Pair, path: &Path, content: &[u8], put: PutFile) -> Result<bool, LinkError> {
    let mut upload = within(pair.link.put_file(bytes(path), put)).await?;
    within(upload.write(content)).await?;
    Ok(within(upload.finish()).await?.1)
}

fn tag(stat: &elevo_agent_link::FileStat) -> String {
    elevo_agent_proto::file_tag(&v1::FileStat {
        size: stat.size,
        modified_seconds: stat.modified.0,
        modified_nanos: stat.modified.1,
        changed_seconds: stat.changed.0,
        changed_nanos: stat.changed.1,
        inode: stat.inode,
        ..v1::FileStat::default()
    })
}

#[tokio::test]
async fn a_file_is_written_and_read_in_parts() {
    let pair = Pair::start().await;
    let path = pair.directory.path().join("a/b/file");
    let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
    let wish = PutFile {
        mode: Some(0o640),
        parents: true,
        sync: true,
        ..PutFile::default()
    };
    assert!(put(&pair, &path, &content, wish.clone()).await.unwrap());
    assert!(!put(&pair, &path, &content, wish).await.unwrap());
    assert!(std::fs::read(&path).unwrap() == content);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert!(read(&pair, &path).await.unwrap() == content);
    let file = within(pair.link.open_file(bytes(&path))).await.unwrap();
    let mut stream = file.read(1_000_000, 100_000);
    let mut part = Vec::new();
    while let Some(data) = within(stream.next_data()).await.unwrap() {
        part.extend_from_slice(&data);
    }
    assert!(part == content[1_000_000..1_100_000]);
    // Nothing else is left in the directory.
    assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1);
}

#[tokio::test]
async fn a_change_needs_its_precondition() {
    let pair = Pair::start().await;
    let path = pair.directory.path().join("file");
    let with = |condition| PutFile {
        condition,
        ..PutFile::default()
    };
    let exists = FileCondition {
        exists: true,
        ..FileCondition::default()
    };
    let is_new = FileCondition {
        is_new: true,
        ..FileCondition::default()
    };
    let missing = put(&pair, &path, b"1", with(exists.clone())).await;
    assert_eq!(failure(missing), FileFailure::Precondition);
    assert!(put(&pair, &path, b"1", with(is_new.clone())).await.unwrap());
    let there = put(&pair, &path, b"2", with(is_new)).await;
    assert_eq!(failure(there), FileFailure::Precondition);
    let stat = within(pair.link.open_file(bytes(&path)))
        .await
        .unwrap()
        .stat;
    let same = FileCondition {
        tags: vec![tag(&stat)],
        ..exists
    };
    assert!(!put(&pair, &path, b"3", with(same.clone())).await.unwrap());
    let stale = put(&pair, &path, b"4", with(same.clone())).await;
    assert_eq!(failure(stale), FileFailure::Precondition);
    let stale = within(pair.link.remove_file(bytes(&path), false, same)).await;
    assert_eq!(failure(stale), FileFailure::Precondition);
    assert_eq!(std::fs::read(&path).unwrap(), b"3");
    assert_eq!(pair.directory.path().read_dir().unwrap().count(), 2);
}

#[tokio::test]
async fn a_dropped_upload_leaves_nothing() {
    let pair = Pair::start().await;
    let path = pair.directory.path().join("files/new");
    let wish = PutFile {
        parents: true,
        ..PutFile::default()
    };
    let mut upload = within(pair.link.put_file(bytes(&path), wish))
        .await
        .unwrap();
    within(upload.write(b"a part")).await.unwrap();
    let count = || match path.parent().unwrap().read_dir() {
        Ok(entries) => entries.count(),
        Err(_) => 0,
    };
    until("the temporary file is there", || count() == 1).await;
    drop(upload);
    until("the temporary file is gone", || count() == 0).await;
}

#[tokio::test]
async fn a_directory_is_listed_in_pages_by_name() {
    let pair = Pair::start().await;
    let path = pair.directory.path().join("many");
    std::fs::create_dir(&path).unwrap();
    for index in 0..2500 {
        std::fs::write(path.join(format!("{index:04}")), "x").unwrap();
    }
    symlink("the target", path.join("link")).unwrap();
    let mut names = Vec::new();
    let mut after = Vec::new();
    loop {
        let listing = pair.link.list_files(bytes(&path), after, 1000);
        let list = within(listing).await.unwrap();
        names.extend(list.entries.clone());
        if !list.has_more {
            break;
        }
        after = names.last().unwrap().0.clone();
    }
    assert_eq!(names.len(), 2501);
    assert!(names.is_sorted_by(|one, two| one.0 < two.0));
    let (name, stat) = names.last().unwrap();
    assert_eq!(
        (name.as_slice(), stat.kind),
        (&b"link"[..], FileKind::Symlink)
    );
    assert_eq!(stat.target, b"the target");
}

#[tokio::test]
async fn names_are_created_moved_and_deleted() {
    let pair = Pair::start().await;
    let link = &pair.link;
    let root = pair.directory.path();
    let deep = root.join("one/two/three");
    let made = within(link.make_directory(bytes(&deep), Some(0o700), true)).await;
    let (stat, is_new) = made.unwrap();
    assert!(is_new && stat.kind == FileKind::Directory && stat.mode == 0o700);
    let again = within(link.make_directory(bytes(&deep), None, true)).await;
    assert!(!again.unwrap().1);
    let (old, new) = (root.join("one"), root.join("other"));
    within(link.rename_file(bytes(&old), bytes(&new), false))
        .await
        .unwrap();
    let below = within(link.rename_file(bytes(&new), bytes(&new.join("two/x")), false)).await;
    assert_eq!(failure(below), FileFailure::BelowItself);
    std::fs::write(&old, "in the way").unwrap();
    let exists = within(link.rename_file(bytes(&new), bytes(&old), false)).await;
    assert_eq!(failure(exists), FileFailure::Exists);
    let any = FileCondition::default;
    let full = within(link.remove_file(bytes(&new), false, any())).await;
    assert_eq!(failure(full), FileFailure::NotEmpty);
    // Deeper than a stack or a limit of open files.
    let mut path = new.clone();
    for _ in 0..300 {
        path.push("d");
        std::fs::create_dir_all(&path).unwrap();
    }
    // A link is deleted, and its target is not.
    symlink(&old, new.join("link")).unwrap();
    within(link.remove_file(bytes(&new), true, any()))
        .await
        .unwrap();
    assert!(!new.exists() && old.exists());
    let gone = within(link.remove_file(bytes(&new), true, any())).await;
    assert_eq!(failure(gone), FileFailure::NotFound);
}

#[tokio::test]
async fn only_regular_files_are_read() {
    let pair = Pair::start().await;
    let root = pair.directory.path();
    let pipe = root.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let wrong = [
        (pipe.as_path(), FileFailure::NotAFile),
        (Path::new("/dev/zero"), FileFailure::NotAFile),
        (Path::new("/dev/tty"), FileFailure::NotAFile),
        (root, FileFailure::IsDirectory),
        (Path::new("/nowhere/file"), FileFailure::NotFound),
        (Path::new("/etc/passwd/file"), FileFailure::NotDirectory),
        (Path::new("relative"), FileFailure::NotFound),
    ];
    for (path, expected) in wrong {
        assert_eq!(failure(read(&pair, path).await), expected, "{path:?}");
    }
    let missing = put(&pair, &root.join("no/file"), b"", PutFile::default()).await;
    assert_eq!(failure(missing), FileFailure::NotFound);
    let onto = put(&pair, root, b"", PutFile::default()).await;
    assert_eq!(failure(onto), FileFailure::IsDirectory);
}

#[tokio::test]
async fn files_of_the_kernel_have_content_without_a_size() {
    let pair = Pair::start().await;
    for path in [
        "/proc/meminfo",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        if let Ok(expected) = std::fs::read(path) {
            let content = read(&pair, Path::new(path)).await.unwrap();
            assert!(!content.is_empty() && content.len() < 2 * expected.len());
        }
    }
    let list = within(pair.link.list_files(b"/proc", Vec::new(), 10_000)).await;
    assert!(!list.unwrap().entries.is_empty());
}

#[tokio::test]
async fn the_agent_reads_nothing_about_itself_or_other_processes() {
    let pair = Pair::start().await;
    let pid = pair.agent.pid();
    let directory = pair.directory.path();
    let hidden = directory.join("hidden");
    symlink("/proc/self/environ", &hidden).unwrap();
    symlink("/proc/self", directory.join("self")).unwrap();
    let paths = [
        "/proc/self/mem".into(),
        "/proc/self/environ".into(),
        "/proc/thread-self/mem".into(),
        "/proc/self/task/../mem".into(),
        "/proc/self/root/proc/self/mem".into(),
        format!("/proc/{pid}/mem"),
        format!("/proc/{pid}/maps"),
        "/dev/fd/../mem".into(),
        hidden.display().to_string(),
        directory.join("self/mem").display().to_string(),
    ];
    for path in paths {
        let path = Path::new(&path);
        assert_eq!(
            failure(read(&pair, path).await),
            FileFailure::Denied,
            "{path:?}"
        );
        let written = put(&pair, path, b"x", PutFile::default()).await;
        if !path.starts_with(directory) || path.ends_with("mem") {
            assert_eq!(failure(written), FileFailure::Denied, "{path:?}");
        }
    }
    let list = within(pair.link.list_files(b"/proc/self/fd", Vec::new(), 10)).await;
    assert_eq!(failure(list), FileFailure::Denied);
    // Its open files are not reachable either: none of them is a regular one.
    for descriptor in 0..20 {
        let path = format!("/proc/self/fd/{descriptor}");
        assert!(read(&pair, Path::new(&path)).await.is_err());
    }
}

#[tokio::test]
async fn a_file_that_becomes_shorter_is_cut_off() {
    let pair = Pair::start().await;
    let path = pair.directory.path().join("file");
    std::fs::write(&path, vec![1; 5_000_000]).unwrap();
    let file = within(pair.link.open_file(bytes(&path))).await.unwrap();
    std::fs::write(&path, "short").unwrap();
    let mut stream = file.read(0, 5_000_000);
    let error = loop {
        match within(stream.next_data()).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the file looks complete"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}
