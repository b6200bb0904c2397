use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::platform::watch::events::{needs_disk, read};

/// Reads all events, and returns their changes and whether the tree is lost.
fn noticed(tree: &mut Tree) -> (Vec<String>, bool) {
    let mut changes = Vec::new();
    while let Some(events) = read(&tree.queue).unwrap() {
        let mut batch = Batch::default();
        tree.apply(events, &mut batch).unwrap();
        for change in &batch.changes {
            let kind = match change.kind {
                ChangeKind::Created => '+',
                ChangeKind::Changed => '*',
                ChangeKind::Deleted => '-',
            };
            let end = if change.is_directory { "/" } else { "" };
            changes.push(format!("{kind}{}{end}", change.path.display()));
        }
        if batch.is_lost {
            return (changes, true);
        }
    }
    (changes, false)
}

fn opened(root: &Path, below: &str) -> Tree {
    Tree::open(root.into(), below.into()).unwrap()
}

#[test]
fn notices_changes_in_all_directories() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("a/b")).unwrap();
    let mut tree = opened(root.path(), "");
    fs::write(at("a/b/file"), "one").unwrap();
    assert_eq!(noticed(&mut tree).0, ["+a/b/file"]);
    fs::write(at("a/b/file"), "two").unwrap();
    assert_eq!(noticed(&mut tree).0, ["*a/b/file"]);
    fs::rename(at("a/b/file"), at("file")).unwrap();
    assert_eq!(noticed(&mut tree).0, ["-a/b/file", "+file"]);
    fs::remove_file(at("file")).unwrap();
    symlink("/etc", at("link")).unwrap();
    assert_eq!(noticed(&mut tree).0, ["-file", "+link"]);
}

#[test]
fn reports_files_that_were_created_before_their_directory_was_watched() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    let mut tree = opened(root.path(), "");
    fs::create_dir_all(at("new/deep")).unwrap();
    fs::write(at("new/deep/file"), "").unwrap();
    let (mut changes, _) = noticed(&mut tree);
    changes.sort();
    changes.dedup();
    assert_eq!(changes, ["+new/", "+new/deep/", "+new/deep/file"]);
    fs::write(at("new/deep/later"), "").unwrap();
    assert_eq!(noticed(&mut tree).0, ["+new/deep/later"]);
}

#[test]
fn a_moved_directory_is_noticed_at_its_new_path_only() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir_in(root.path().parent().unwrap()).unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("a/deep")).unwrap();
    fs::create_dir_all(at("b")).unwrap();
    let mut tree = opened(root.path(), "");
    let before = tree.directories.len();
    fs::rename(at("a/deep"), at("b/deep")).unwrap();
    fs::write(at("b/deep/file"), "").unwrap();
    let (changes, _) = noticed(&mut tree);
    assert_eq!(changes, ["-a/deep/", "+b/deep/", "+b/deep/file"]);
    assert_eq!(tree.directories.len(), before);
    // Out of the tree: the watch does not notice changes in it.
    let gone = outside.path().join("gone");
    fs::rename(at("b/deep"), &gone).unwrap();
    assert_eq!(noticed(&mut tree).0, ["-b/deep/"]);
    fs::write(gone.join("other"), "").unwrap();
    assert_eq!(noticed(&mut tree).0, [""; 0]);
    fs::rename(&gone, at("back")).unwrap();
    let (mut changes, _) = noticed(&mut tree);
    changes.sort();
    assert_eq!(changes, ["+back/", "+back/file", "+back/other"]);
}

#[test]
fn directories_that_change_places_keep_their_paths() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("x/y")).unwrap();
    let mut tree = opened(root.path(), "");
    // `y` is moved out of `x`, and `x` into `y`.
    fs::rename(at("x/y"), at("y")).unwrap();
    fs::rename(at("x"), at("y/x")).unwrap();
    noticed(&mut tree);
    fs::write(at("y/x/file"), "").unwrap();
    assert_eq!(noticed(&mut tree).0, ["+y/x/file"]);
    assert_eq!(tree.directories.len(), 3);
    fs::remove_dir_all(at("y")).unwrap();
    noticed(&mut tree);
    assert_eq!(tree.directories.len(), 1);
}

#[test]
fn symbolic_links_lead_no_watch_out() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir(at("inside")).unwrap();
    symlink(outside.path(), at("out")).unwrap();
    symlink("inside", at("in")).unwrap();
    let mut tree = opened(root.path(), "");
    fs::write(outside.path().join("file"), "").unwrap();
    symlink(outside.path(), at("inside/out")).unwrap();
    assert_eq!(noticed(&mut tree).0, ["+inside/out"]);
    assert_eq!(tree.directories.len(), 2);
    let open = |below: &str| Tree::open(root.path().into(), below.into());
    assert!(matches!(open("out"), Err(WatchError::LeadsOut)));
    assert!(matches!(open("none"), Err(WatchError::NoSuchPath)));
    let long = "n".repeat(5000);
    assert!(matches!(open(&long), Err(WatchError::NoSuchPath)));
    fs::write(at("file"), "").unwrap();
    assert!(matches!(open("file"), Err(WatchError::NotADirectory)));
    // A link that stays inside is followed, and then replaced.
    let mut tree = opened(root.path(), "in");
    fs::write(at("inside/new"), "").unwrap();
    assert_eq!(noticed(&mut tree).0, ["+new"]);
    assert!(tree.is_current());
    fs::remove_file(at("in")).unwrap();
    symlink(outside.path(), at("in")).unwrap();
    assert!(!tree.is_current());
    fs::create_dir(at("inside/later")).unwrap();
    assert!(noticed(&mut tree).1);
}

#[test]
fn an_overflow_or_the_end_of_the_top_directory_is_a_loss() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().join("top");
    fs::create_dir(&top).unwrap();
    let mut tree = opened(root.path(), "top");
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    for n in 0..limit {
        let name = top.join((n % 7).to_string());
        fs::write(&name, "").unwrap();
        fs::remove_file(&name).unwrap();
    }
    assert!(noticed(&mut tree).1);
    let mut tree = opened(root.path(), "top");
    fs::remove_dir(&top).unwrap();
    assert!(noticed(&mut tree).1);
    assert!(!tree.is_current());
}

#[test]
fn rejects_too_many_and_too_deep_directories() {
    let root = tempfile::tempdir().unwrap();
    let many = root.path().join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..=MAX_DIRECTORIES {
        fs::create_dir(many.join(n.to_string())).unwrap();
    }
    let refused = Tree::open(root.path().into(), "many".into());
    assert!(matches!(refused, Err(WatchError::TooMany)));
    let mut tree = {
        let top = root.path().join("top");
        fs::create_dir(&top).unwrap();
        opened(root.path(), "top")
    };
    let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
    fs::create_dir_all(root.path().join("top").join(deep)).unwrap();
    let mut applied = Ok(());
    while let Some(events) = read(&tree.queue).unwrap()
        && applied.is_ok()
    {
        applied = tree.apply(events, &mut Batch::default());
    }
    assert!(matches!(applied, Err(WatchError::TooMany)));
}

#[test]
fn a_new_directory_with_very_many_files_is_incomplete() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir_in(root.path().parent().unwrap()).unwrap();
    let many = outside.path().join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..20_000 {
        fs::write(many.join(n.to_string()), "").unwrap();
    }
    let mut tree = opened(root.path(), "");
    fs::rename(&many, root.path().join("many")).unwrap();
    let mut batch = Batch::default();
    let events = read(&tree.queue).unwrap().unwrap();
    assert!(needs_disk(&events));
    tree.apply(events, &mut batch).unwrap();
    assert!(batch.is_incomplete && batch.is_lost);
    assert!((10_000..20_000).contains(&batch.changes.len()));
}
