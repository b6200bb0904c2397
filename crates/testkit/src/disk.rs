//! Disks that lose power: each is a file with an ext4 image, which can be
//! copied at any moment and mounted again.
//!
//! The file is the disk. It contains everything that the file system passed to
//! the block layer, but not the data in the page cache that was not synced. So
//! a copy of the file is the state of a disk after a loss of power at that
//! moment.
//!
//! Needs root and loop devices. Mounts are in a private mount namespace of the
//! test (see [`in_own_namespace`]): the kernel removes the mounts and frees the
//! loop devices even if the test crashes.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::wait;

const NAMESPACE: &str = "ELEVO_TEST_NAMESPACE";

/// Returns true in a process that may mount. Otherwise runs the test again in
/// such a process, waits for its end, panics if it failed, and returns false.
///
/// ```no_run
/// #[test]
/// fn power_fails() {
///     if !elevo_testkit::disk::in_own_namespace("power_fails") {
///         return;
///     }
///     // mount what you like
/// }
/// # fn main() {}
/// ```
pub fn in_own_namespace(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "mounting an image needs root");
    in_namespace(test, &["--mount", "--propagation", "private"])
}

/// Like [`in_own_namespace`], but in a user namespace: the test is root there,
/// and has only the rights of an ordinary user outside.
pub fn in_user_namespace(test: &str) -> bool {
    in_namespace(test, &["--user", "--map-root-user", "--mount"])
}

fn in_namespace(test: &str, kinds: &[&str]) -> bool {
    if env::var_os(NAMESPACE).is_some() {
        return true;
    }
    // The test cannot delete a directory that contains its mounts. The mounts
    // end with the test, so this process deletes its temporary directories
    // afterwards. Other users may enter this directory; tests set the
    // permissions of the directories in it.
    let temporary = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .unwrap();
    let status = Command::new("unshare")
        .args(kinds)
        .args(["--kill-child", "--"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(NAMESPACE, "1")
        .env("TMPDIR", temporary.path())
        .status()
        .expect("util-linux has unshare");
    assert!(status.success(), "{test} in a separate namespace: {status}");
    false
}

/// A mounted image, which is unmounted when it is dropped.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    mounted: PathBuf,
}

impl Disk {
    /// Creates an empty disk, as a file and a mount point in `directory`.
    pub fn make(directory: &Path, name: &str, bytes: u64) -> Self {
        let image = directory.join(format!("{name}.img"));
        File::create(&image).unwrap().set_len(bytes).unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(&image));
        Self::mount(image)
    }

    /// Creates an empty disk whose file system can clone files (btrfs).
    pub fn make_cloning(directory: &Path, name: &str, bytes: u64) -> Self {
        let image = directory.join(format!("{name}.img"));
        File::create(&image).unwrap().set_len(bytes).unwrap();
        format_btrfs(&image);
        Self::mount_with(image, "btrfs", "loop")
    }

    /// Mounts the disk in `image`; its journal is replayed, as after a crash.
    pub fn mount(image: PathBuf) -> Self {
        // This option prevents periodic commits, so that the disk contains only
        // synced data.
        Self::mount_with(image, "ext4", "loop,commit=300")
    }

    fn mount_with(image: PathBuf, kind: &str, options: &str) -> Self {
        let mounted = image.with_extension("mnt");
        fs::create_dir_all(&mounted).unwrap();
        run(Command::new("mount")
            .args(["-t", kind, "-o", options])
            .arg(&image)
            .arg(&mounted));
        Self { image, mounted }
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.mounted
    }

    /// Returns the state of the disk after a loss of power now, as a new disk.
    /// Writers to this disk must be paused: the copy is repeated until nothing
    /// was written while it was taken, so that it shows a single moment.
    pub fn lose_power(&self, name: &str) -> Self {
        let copy = self.image.with_file_name(format!("{name}.img"));
        let started = Instant::now();
        loop {
            let before = self.quiet();
            run(Command::new("cp")
                .arg("--sparse=always")
                .arg(&self.image)
                .arg(&copy));
            if self.activity() == before {
                return Self::mount(copy);
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the disk is never quiet"
            );
        }
    }

    /// Waits until no requests are in flight.
    fn quiet(&self) -> Activity {
        let mut last = None;
        wait::until("the disk is quiet", || {
            let now = self.activity();
            let is_quiet = last.replace(now) == Some(now) && now.in_flight == 0;
            is_quiet.then_some(now)
        })
    }

    /// Reads the statistics of the device; `Documentation/block/stat.rst` of
    /// the kernel describes them.
    fn activity(&self) -> Activity {
        let device = output(
            Command::new("findmnt")
                .args(["-no", "SOURCE"])
                .arg(&self.mounted),
        );
        let device = Path::new(device.trim()).file_name().unwrap().to_owned();
        let stat = fs::read_to_string(Path::new("/sys/block").join(device).join("stat")).unwrap();
        let fields: Vec<u64> = stat
            .split_whitespace()
            .map(|field| field.parse().unwrap())
            .collect();
        Activity {
            writes: fields[4],
            sectors: fields[6],
            in_flight: fields[8],
        }
    }

    /// Unmounts the disk and deletes its file.
    pub fn discard(self) {
        let image = self.image.clone();
        drop(self);
        fs::remove_file(image).unwrap();
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Activity {
    writes: u64,
    sectors: u64,
    in_flight: u64,
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmount = |lazy: &[&str]| {
            let status = Command::new("umount")
                .args(lazy)
                .arg(&self.mounted)
                .status();
            status.is_ok_and(|status| status.success())
        };
        let unmounted = unmount(&[]) || unmount(&["--lazy"]);
        assert!(
            unmounted || std::thread::panicking(),
            "cannot unmount {}",
            self.mounted.display()
        );
    }
}

/// `mkfs.btrfs` looks at every loop device of the machine, and fails if one of
/// them is detached meanwhile. It then runs again.
fn format_btrfs(image: &Path) {
    let mut attempts = 1;
    loop {
        let mut command = Command::new("mkfs.btrfs");
        let made = command.args(["--quiet", "--force"]).arg(image).output();
        let made = made.unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        if made.status.success() {
            return;
        }
        assert!(attempts < 5 && said.contains("mount status"), "{said}");
        attempts += 1;
    }
}

fn run(command: &mut Command) {
    output(command);
}

fn output(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
