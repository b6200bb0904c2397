//! Everything works without root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{ELEVO, Ended, clean, ended};

/// Somebody without any rights of his own.
const NOBODY: u32 = 65534;

/// Runs `elevo state` as nobody if we are root, else as who we are.
fn run(elevo: &Path, directory: &Path, args: &[&str]) -> Ended {
    run_any(elevo, directory, "state", args)
}

fn run_any(elevo: &Path, directory: &Path, area: &str, args: &[&str]) -> Ended {
    let mut command = Command::new(elevo);
    clean(&mut command);
    command.arg(area).args(args).current_dir(directory);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    ended(&mut command)
}

#[test]
fn nothing_needs_root() {
    let root = tempfile::tempdir().unwrap();
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root.path(), everybody).unwrap();
    let home = root.path().join("home");
    fs::create_dir(&home).unwrap();
    // Where it was built, others may not look.
    let elevo = root.path().join("elevo");
    fs::hard_link(ELEVO, &elevo)
        .or_else(|_| fs::copy(ELEVO, &elevo).map(drop))
        .unwrap();
    let work = home.join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("file"), "text\n").unwrap();
    if rustix::process::geteuid().is_root() {
        for path in [&home, &work, &work.join("file")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    for args in [
        &["init"][..],
        &["commit", "-m", "first"],
        &["import", ".", "--tag", "t"],
        &["log"],
        &["show"],
        &["ls", "-l"],
        &["cat", "head", "file"],
        &["diff", "--stat"],
        &["checkout", "t", "../copy"],
    ] {
        let ended = run(&elevo, &work, args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
    }
    assert_eq!(
        fs::read_to_string(home.join("copy/file")).unwrap(),
        "text\n"
    );

    for args in [
        &["create", "--id", "one"][..],
        &["status", "one"],
        &["fork", "one", "two"],
        &["snapshot", "two"],
        &["park", "two"],
        &["resume", "two"],
        &["ls"],
        &["rm", "one", "two"],
    ] {
        let ended = run_any(&elevo, &work, "ws", args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
    }

    // A file that may not be read is named, and nothing is kept.
    let nobody = fs::Permissions::from_mode(0o000);
    fs::set_permissions(work.join("file"), nobody).unwrap();
    let ended = run(&elevo, &work, &["commit"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("`file`"), "{}", ended.stderr);
}
