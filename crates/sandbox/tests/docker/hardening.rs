//! Tests promises 1 to 3: the rights of a command, and the files and processes
//! that it can access.

use std::collections::BTreeMap;
use std::fs;

use bollard::models::{HostConfigCgroupnsModeEnum, RestartPolicyNameEnum};
use elevo_sandbox::{Mount, SandboxRuntime};

use crate::support::{MIB, UID, host, with_installation};

#[test]
fn a_command_runs_as_the_user_of_the_spec_and_in_no_other_group() {
    with_installation(async |own| {
        let seen = own
            .inside("id -u; id -g; grep Groups /proc/self/status")
            .await;
        let words: Vec<_> = seen.split_whitespace().collect();
        let user = UID.to_string();
        assert_eq!(words[..3], [&user, &user, "Groups:"], "{seen}");
        assert!(words[3..].iter().all(|group| **group == user), "{seen}");
    });
}

#[test]
fn a_command_has_no_capability_in_any_set() {
    with_installation(async |own| {
        let seen = own.inside("grep ^Cap /proc/self/status").await;
        assert_eq!(seen.lines().count(), 5, "{seen}");
        for line in seen.lines() {
            assert!(line.ends_with("\t0000000000000000"), "{line}");
        }
    });
}

#[test]
fn a_command_cannot_gain_privileges_and_runs_under_a_seccomp_filter() {
    with_installation(async |own| {
        let script = "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; \
                      unshare --user true 2>&1 || echo refused";
        let seen = own.inside(script).await;
        assert!(seen.contains("NoNewPrivs:\t1"), "{seen}");
        assert!(seen.contains("Seccomp:\t2"), "{seen}");
        assert!(seen.contains("refused"), "{seen}");
    });
}

#[test]
fn the_root_is_read_only_unless_the_spec_makes_it_writable() {
    with_installation(async |own| {
        // The image's /tmp is world-writable, so only the read-only mount
        // prevents the write.
        let script =
            "echo x >/tmp/x && echo written; grep ' / / ' /proc/self/mountinfo | cut -d' ' -f6";
        let mut spec = own.spec(script);
        spec.tmpfs.clear();
        let seen = own.output(&spec).await;
        assert!(seen.contains("Read-only file system"), "{seen}");
        assert!(seen.contains("ro,"), "{seen}");

        let mut spec = own.spec(script);
        spec.tmpfs.clear();
        spec.writable_root = true;
        let seen = own.output(&spec).await;
        assert!(seen.contains("written"), "{seen}");
    });
}

#[test]
fn a_tmpfs_has_its_size_and_neither_devices_nor_setuid() {
    with_installation(async |own| {
        let script = "grep ' /tmp ' /proc/self/mountinfo; dd if=/dev/zero of=/tmp/x bs=1M count=20 2>&1; \
                      printf '#!/bin/sh\\necho executed\\n' >/tmp/run || { rm /tmp/x; \
                      printf '#!/bin/sh\\necho executed\\n' >/tmp/run; }; chmod +x /tmp/run; /tmp/run";
        let seen = own.inside(script).await;
        let mount = seen.lines().next().unwrap();
        assert!(
            mount.contains("nosuid") && mount.contains("nodev"),
            "{mount}"
        );
        assert!(mount.contains("size=8192k"), "{mount}");
        assert!(seen.contains("No space left on device"), "{seen}");
        assert!(seen.contains("executed"), "{seen}");
    });
}

#[test]
fn no_namespace_is_shared_with_the_host() {
    with_installation(async |own| {
        let names = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];
        let script = format!(
            "for n in {}; do readlink /proc/self/ns/$n; done",
            names.join(" ")
        );
        let seen = own.inside(&script).await;
        assert_eq!(seen.lines().count(), names.len(), "{seen}");
        for (name, inside) in names.iter().zip(seen.lines()) {
            let outside = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            assert_ne!(inside, outside.to_str().unwrap(), "{name}");
        }
    });
}

#[test]
fn the_command_is_the_first_process_and_sees_no_other() {
    with_installation(async |own| {
        let seen = own.inside("echo $$; ls /proc | grep -c '^[0-9]'").await;
        let words: Vec<_> = seen.split_whitespace().collect();
        assert_eq!(words[0], "1", "{seen}");
        let processes: u32 = words[1].parse().unwrap();
        assert!(processes <= 4, "{seen}");
    });
}

#[test]
fn a_sandbox_has_only_harmless_devices() {
    with_installation(async |own| {
        let seen = own.inside("find /dev -type b; find /dev -type c").await;
        let harmless = ["full", "null", "ptmx", "random", "tty", "urandom", "zero"];
        for device in seen.lines() {
            let name = device.strip_prefix("/dev/").unwrap();
            assert!(harmless.contains(&name) || name == "pts/ptmx", "{device}");
        }
    });
}

#[test]
fn core_dumps_open_files_and_the_oom_score_are_limited() {
    with_installation(async |own| {
        let seen = own
            .inside("ulimit -c; ulimit -n; cat /proc/self/oom_score_adj")
            .await;
        assert_eq!(
            seen.split_whitespace().collect::<Vec<_>>(),
            ["0", "16384", "500"]
        );
    });
}

#[test]
fn the_engine_receives_every_protection_option() {
    with_installation(async |own| {
        let spec = own.spec("true");
        let id = own.runtime.create(&spec).await.unwrap();
        let found = own.inspect(&id).await;
        let config = found.host_config.unwrap();
        assert_eq!(config.privileged, Some(false));
        assert_eq!(config.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(config.cap_add.unwrap_or_default(), Vec::<String>::new());
        assert_eq!(
            config.security_opt,
            Some(vec!["no-new-privileges:true".to_owned()])
        );
        assert_eq!(config.readonly_rootfs, Some(true));
        assert_eq!(config.memory, config.memory_swap);
        assert_eq!(config.memory, Some(64 << 20));
        assert_eq!(config.pids_limit, Some(32));
        assert_eq!(config.nano_cpus, Some(1_000_000_000));
        assert_eq!(config.ipc_mode.as_deref(), Some("private"));
        assert_eq!(
            config.cgroupns_mode,
            Some(HostConfigCgroupnsModeEnum::PRIVATE)
        );
        assert!(config.pid_mode.unwrap_or_default().is_empty());
        assert!(config.uts_mode.unwrap_or_default().is_empty());
        assert!(config.userns_mode.unwrap_or_default().is_empty());
        assert!(config.devices.unwrap_or_default().is_empty());
        assert_eq!(config.init, Some(false));
        let restart = config.restart_policy.unwrap().name.unwrap();
        assert_eq!(restart, RestartPolicyNameEnum::NO);
        let log = config.log_config.unwrap();
        assert_eq!(log.typ.as_deref(), Some("json-file"));
        assert_eq!(log.config.unwrap()["max-size"], "1m");
        let labels = found.config.unwrap().labels.unwrap();
        assert_eq!(labels["elevo.server"], own.server);
        assert_eq!(labels["elevo.sandbox"], spec.sandbox);
        assert_eq!(found.name.unwrap(), format!("/{}", spec.sandbox));
    });
}

#[test]
fn a_sandbox_has_the_variables_directory_and_hostname_of_its_spec() {
    with_installation(async |own| {
        let mut spec = own.spec("pwd; hostname; echo \"$GREETING\"");
        spec.working_dir = "/etc".to_owned();
        spec.hostname = Some("box".to_owned());
        spec.env = BTreeMap::from([("GREETING".to_owned(), "a b=c".to_owned())]);
        assert_eq!(own.output(&spec).await, "/etc\nbox\na b=c\n");
    });
}

#[test]
fn a_mount_is_writable_or_read_only_as_in_the_spec() {
    with_installation(async |own| {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("in"), "from outside\n").unwrap();
        std::os::unix::fs::chown(directory.path(), Some(UID), Some(UID)).unwrap();
        let mut spec = own.spec("cat /w/in; echo inside >/w/out; echo inside >/r/no");
        spec.mounts = vec![
            Mount::writable(directory.path(), "/w"),
            Mount::read_only(directory.path(), "/r"),
        ];
        let seen = own.output(&spec).await;
        assert!(seen.starts_with("from outside\n"), "{seen}");
        assert!(seen.contains("/r/no: Read-only file system"), "{seen}");
        let out = fs::read_to_string(directory.path().join("out")).unwrap();
        assert_eq!(out, "inside\n");
        assert!(!directory.path().join("no").exists());
    });
}

#[test]
fn a_mount_with_follow_shows_later_mounts_of_the_host() {
    with_installation(async |own| {
        let slot = SharedDirectory::new();
        let mut spec = own.spec("until test -e /slot/below/here; do sleep 0.1; done; echo seen");
        spec.mounts = vec![Mount {
            follow: true,
            ..Mount::read_only(slot.path(), "/slot")
        }];
        let id = own.start(&spec).await;
        slot.mount_below();
        own.wrote(&id, "seen").await;
        own.runtime.remove(&id).await.unwrap();
    });
}

/// A tmpfs that is a shared mount: mounts below it propagate.
struct SharedDirectory(tempfile::TempDir);

impl SharedDirectory {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        host(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=1m",
            "tmpfs",
            this.path(),
        ]);
        host(&["mount", "--make-shared", this.path()]);
        fs::create_dir(this.0.path().join("below")).unwrap();
        this
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn mount_below(&self) {
        let below = self.0.path().join("below");
        let below = below.to_str().unwrap();
        host(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=1m,mode=755",
            "tmpfs",
            below,
        ]);
        fs::write(format!("{below}/here"), "").unwrap();
    }
}

impl Drop for SharedDirectory {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .args(["--recursive", self.path()])
            .status();
    }
}

#[test]
fn a_volume_that_an_image_declares_takes_memory_of_the_sandbox_and_no_disk() {
    with_installation(async |own| {
        let base = own.runtime.create(&own.spec("true")).await.unwrap();
        let image = own.commit("volume", &base, "VOLUME /data");

        let mut spec =
            own.spec("echo kept >/data/x && cat /data/x; grep ' /data ' /proc/self/mountinfo");
        spec.image = image;
        let id = own.start(&spec).await;
        own.ended(&id).await;
        let seen = own.logs(&id).await;
        let mounts = own.inspect(&id).await.mounts.unwrap_or_default();

        assert!(seen.starts_with("kept\n"), "{seen}");
        assert!(
            seen.contains("tmpfs") && seen.contains("size=65536k"),
            "{seen}"
        );
        assert!(
            mounts.iter().all(|mount| mount.name.is_none()),
            "{mounts:?}"
        );
    });
}

#[test]
fn shared_memory_is_bounded_and_counts_as_memory() {
    with_installation(async |own| {
        let mut spec = own.spec("dd if=/dev/zero of=/dev/shm/x bs=1M count=200 2>&1");
        spec.memory = 256 * MIB;
        let seen = own.output(&spec).await;
        assert!(seen.contains("No space left on device"), "{seen}");
    });
}

#[test]
fn a_sandbox_that_exits_is_not_started_again() {
    with_installation(async |own| {
        let id = own.start(&own.spec("echo once; exit 3")).await;
        let status = own.ended(&id).await;
        assert_eq!(status.exit_code, Some(3));
        assert_eq!(status.pid, None);
        // The engine has not restarted the container, and the restart policy
        // prevents later restarts.
        let found = own.inspect(&id).await;
        assert_eq!(found.restart_count, Some(0));
        let restart = found.host_config.unwrap().restart_policy.unwrap().name;
        assert_eq!(restart, Some(RestartPolicyNameEnum::NO));
        assert_eq!(own.logs(&id).await, "once\n");
    });
}
