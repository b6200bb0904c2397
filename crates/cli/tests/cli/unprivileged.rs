//! Everything works without root and without any capability, whatever the
//! machine has; `elevo doctor` says what it has not.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::common::{ELEVO, clean, elevo, ended};

/// Somebody without any rights of his own.
const NOBODY: u32 = 65534;

const EVERYTHING: &str = include_str!("unprivileged/everything.sh");
const MACHINE: &str = include_str!("unprivileged/machine.sh");

/// Where nobody finds the program, scripts, and an empty directory of his own.
fn place() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root.path(), everybody).unwrap();
    // Where it was built, others may not look.
    let elevo = root.path().join("elevo");
    fs::hard_link(ELEVO, &elevo)
        .or_else(|_| fs::copy(ELEVO, &elevo).map(drop))
        .unwrap();
    fs::write(root.path().join("everything.sh"), EVERYTHING).unwrap();
    fs::write(root.path().join("machine.sh"), MACHINE).unwrap();
    fs::create_dir(root.path().join("home")).unwrap();
    root
}

fn all_works(fuse: &str, namespaces: &str) {
    let place = place();
    let at = |name: &str| place.path().join(name);
    chown(at("home"), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new("unshare");
    clean(&mut command);
    command
        .args(["--mount", "--propagation", "private", "--", "bash"])
        .arg(at("machine.sh"))
        .args([fuse, namespaces])
        .args([at("everything.sh"), at("elevo"), at("home")])
        .current_dir("/");
    let ended = ended(&mut command);
    let said = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.code, 0, "{said}\n{}", ended.stderr);
    assert_eq!(mounts_in(place.path()), 0);
}

fn mounts_in(directory: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.matches(directory.to_str().unwrap()).count()
}

#[test]
fn all_works_with_fuse_and_namespaces() {
    all_works("yes", "yes");
}

#[test]
fn all_works_without_fuse() {
    all_works("no", "yes");
}

#[test]
fn all_works_without_namespaces() {
    all_works("yes", "no");
}

#[test]
fn all_works_without_fuse_and_namespaces() {
    all_works("no", "no");
}

/// Otherwise a new command is forgotten there.
#[test]
fn the_script_tries_every_command() {
    for (area, from_server) in [
        ("state", &[][..]),
        ("ws", &["merge", "complete", "refresh"][..]),
    ] {
        let help = ended(elevo().args([area, "--help"])).text();
        let commands = help.split("Commands:\n").nth(1).unwrap();
        let commands = commands.lines().take_while(|line| !line.is_empty());
        let names = commands.filter_map(|line| line.split_whitespace().next());
        for name in names.filter(|name| !from_server.contains(name)) {
            let call = format!("{area} {name}");
            assert!(EVERYTHING.contains(&call), "`{call}` is not tried");
        }
    }
}
