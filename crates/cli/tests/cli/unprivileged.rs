//! All local commands work without root and without capabilities, with and without
//! FUSE and user namespaces; `elevo doctor` shows what the machine lacks.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::common::{ELEVO, clean, elevo, ended};

/// A user without any privileges.
const NOBODY: u32 = 65534;

const EVERYTHING: &str = include_str!("unprivileged/everything.sh");
const MACHINE: &str = include_str!("unprivileged/machine.sh");

/// A directory with the program, the scripts and an empty home for the
/// unprivileged user.
fn place() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root.path(), everybody).unwrap();
    // Other users may have no access to the build directory.
    let elevo = root.path().join("elevo");
    fs::hard_link(ELEVO.as_str(), &elevo)
        .or_else(|_| fs::copy(ELEVO.as_str(), &elevo).map(drop))
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

/// An unprivileged user mounts a file system that looks like root's own overlay,
/// with hostile files in it.
#[test]
fn root_does_not_enter_a_namespace_of_another_user() {
    let name = "unprivileged::root_does_not_enter_a_namespace_of_another_user";
    if !elevo_testkit::disk::in_own_namespace(name) {
        return;
    }
    let place = place();
    let at = |name: &str| place.path().join(name);
    let root = at("roots");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "text").unwrap();
    let call = |words: &[&str]| {
        let mut command = elevo();
        ended(command.args(words).current_dir(&root))
    };
    let script = r#"
        mount -t tmpfs tmpfs "$1" && cd "$1"
        mkdir -p "$2/upper" "$2/work" "$2/files" lower && echo hostile > lower/file
        mount -t overlay overlay -o "userxattr,lowerdir=lower,upperdir=$2/upper,workdir=$2/work" "$2/files"
        echo there && exec sleep 60"#;
    for words in [
        &["init"][..],
        &["commit"],
        &["ws", "create", "--provider", "rootless", "x"],
    ] {
        let ended = call(words);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    let live = root.join(".elevo/workspaces/live/x");
    // As after a reboot.
    let unmounted = Command::new("umount").arg(live.join("files")).status();
    assert!(unmounted.unwrap().success());
    let mut stranger = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .args(["unshare", "--user", "--map-root-user", "--mount"])
        .args(["sh", "-euc", script, "sh"])
        .args([&root, &live])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 6];
    std::io::Read::read_exact(stranger.stdout.as_mut().unwrap(), &mut said).unwrap();
    let run = call(&["ws", "exec", "x", "--", "cat", "file"]);
    let again = {
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        call(&["ws", "exec", "x", "--", "cat", "file"])
    };
    let removed = call(&["ws", "rm", "x"]);
    assert_eq!(run.code, 125, "{}", String::from_utf8_lossy(&run.stdout));
    let pid = stranger.id().to_string();
    assert!(run.stderr.contains(&pid), "{}", run.stderr);
    assert_eq!(again.stdout, b"text", "{}", again.stderr);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
}

/// The commands on a directory and its store.
const LOCAL: [&str; 13] = [
    "init", "import", "export", "commit", "status", "log", "show", "diff", "restore", "checkout",
    "cat", "ls", "tag",
];

/// Ensures that new commands are added to the script.
#[test]
fn the_script_tries_every_command() {
    for name in LOCAL {
        let call = format!("\"$elevo\" {name}");
        assert!(EVERYTHING.contains(&call), "`{call}` is not tried");
    }
    for (area, from_server) in [("store", &[][..]), ("ws", &["pull", "restore"][..])] {
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
