//! The kernel, and the first process.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Arena, Runtime, in_each_runtime, workspace};
use crate::harness::{docker, eventually};

in_each_runtime!(
    calls_that_reach_beyond_a_sandbox_are_refused,
    sockets_are_of_kinds_that_a_network_holds,
    the_first_process_gives_nothing_away,
    signals_do_not_end_the_first_process,
    neither_proc_nor_sys_takes_a_write,
    files_with_setuid_or_capabilities_give_none,
);

/// Outcomes of a call: with runc, with runsc. gVisor is a separate kernel: a call
/// that is `done` there affects only that kernel, which has no other sandbox in
/// it.
type Table = [(&'static str, &'static str, &'static str)];

const CALLS: &Table = &[
    ("io_uring_setup", "EPERM", "EPERM"),
    ("io_uring_enter", "EPERM", "EPERM"),
    ("io_uring_register", "EPERM", "EPERM"),
    ("userfaultfd", "EPERM", "EPERM"),
    ("add_key", "EPERM", "EPERM"),
    ("request_key", "EPERM", "EPERM"),
    ("keyctl", "EPERM", "EPERM"),
    ("bpf", "EPERM", "EPERM"),
    ("perf_event_open", "EPERM", "ENODEV"),
    ("mount", "EPERM", "EPERM"),
    ("umount2", "EPERM", "EPERM"),
    ("pivot_root", "EPERM", "EPERM"),
    ("chroot", "EPERM", "EPERM"),
    ("open_tree", "EPERM", "ENOSYS"),
    ("move_mount", "EPERM", "ENOSYS"),
    ("fsopen", "EPERM", "ENOSYS"),
    ("fspick", "EPERM", "ENOSYS"),
    ("mount_setattr", "EPERM", "ENOSYS"),
    ("setns", "EPERM", "EOPNOTSUPP"),
    ("unshare_user", "EPERM", "done"),
    ("unshare_mounts", "EPERM", "done"),
    ("unshare_network", "EPERM", "EPERM"),
    ("clone_user", "EPERM", "done"),
    ("clone3_user", "ENOSYS", "ENOSYS"),
    ("init_module", "EPERM", "EPERM"),
    ("finit_module", "EPERM", "EPERM"),
    ("delete_module", "EPERM", "EPERM"),
    ("kexec_load", "EPERM", "EPERM"),
    ("reboot", "EPERM", "EPERM"),
    ("swapon", "EPERM", "EPERM"),
    ("swapoff", "EPERM", "EPERM"),
    ("acct", "EPERM", "EPERM"),
    ("quotactl", "EPERM", "EPERM"),
    ("syslog", "EPERM", "done"),
    ("settimeofday", "EPERM", "EPERM"),
    ("sethostname", "EPERM", "EPERM"),
    ("setuid", "EPERM", "EPERM"),
    ("setgid", "EPERM", "EPERM"),
    ("setgroups", "EPERM", "EPERM"),
    ("open_by_handle_at", "EPERM", "EOPNOTSUPP"),
    ("name_to_handle_at", "EPERM", "EOPNOTSUPP"),
    ("kcmp", "EPERM", "EPERM"),
    ("fanotify_init", "EPERM", "ENOSYS"),
    ("lookup_dcookie", "EPERM", "EPERM"),
    ("vhangup", "EPERM", "EPERM"),
    ("personality", "EPERM", "EINVAL"),
    ("iopl", "EPERM", "EPERM"),
    ("ioperm", "EPERM", "EPERM"),
    ("mknod_disk", "EPERM", "done"),
    ("mknod_memory", "EPERM", "done"),
    ("file_capabilities", "EPERM", "EOPNOTSUPP"),
    ("capset", "EPERM", "EPERM"),
    ("subvolume", "EPERM", "EPERM"),
    ("nice", "EACCES", "done"),
    ("more_files", "EPERM", "EPERM"),
];

const SOCKETS: &Table = &[
    ("raw", "EPERM", "EAFNOSUPPORT"),
    ("raw6", "EPERM", "EAFNOSUPPORT"),
    ("packet", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("vsock", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("alg", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("key", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("xdp", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("can", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("rds", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("tipc", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ("unix", "done", "done"),
    ("tcp", "done", "done"),
    ("udp", "done", "done"),
    ("netlink", "done", "done"),
    // gVisor does not support the system calls of 32-bit programs. It takes
    // these numbers as other calls, of which the last one returns the user id.
    ("old_io_uring_setup", "EPERM", "EPERM"),
    ("old_keyctl", "EPERM", "EINVAL"),
    ("old_socketcall", "EAFNOSUPPORT", "done"),
];

const FIRST: &Table = &[
    ("attach", "EPERM", "EPERM"),
    ("seize", "EPERM", "EPERM"),
    ("read_memory", "EPERM", "ENOSYS"),
    ("write_memory", "EPERM", "ENOSYS"),
    ("take_file", "EPERM", "ENOSYS"),
    ("limit", "EPERM", "EPERM"),
    ("root", "EACCES", "EACCES"),
    ("executable", "EACCES", "EACCES"),
    ("namespace", "EACCES", "ENOENT"),
    // gVisor shows these to any process of the same user; they contain no secret.
    ("descriptors", "EACCES", "done"),
    ("environment", "EACCES", "done"),
    ("memory", "EACCES", "EACCES"),
    ("maps", "EACCES", "done"),
    ("stack", "EACCES", "ENOENT"),
    ("call", "EACCES", "ENOENT"),
];

/// Reports all differences from a table at once.
fn assert_outcomes(runtime: Runtime, table: &Table, found: BTreeMap<String, String>) {
    let expected = table.iter().map(|(name, runc, runsc)| {
        let result = match runtime {
            Runtime::Runc => runc,
            Runtime::Runsc => runsc,
        };
        ((*name).to_owned(), (*result).to_owned())
    });
    assert_eq!(found, expected.collect());
}

async fn calls_that_reach_beyond_a_sandbox_are_refused(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    assert_outcomes(runtime, CALLS, arena.probed("calls").await);
    arena.unharmed().await;
}

async fn sockets_are_of_kinds_that_a_network_holds(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    assert_outcomes(runtime, SOCKETS, arena.probed("families").await);
    arena.unharmed().await;
}

async fn the_first_process_gives_nothing_away(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    assert_outcomes(runtime, FIRST, arena.probed("first").await);
    let seen = arena
        .attack("env; cat /proc/1/environ /proc/1/cmdline; cat /proc/[0-9]*/environ; mount")
        .await;
    assert!(!seen.contains("elvs_"), "{seen}");
    arena.unharmed().await;
}

async fn signals_do_not_end_the_first_process(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let before = arena.begin("sleep 100").await;
    let path = format!("/api/v1/sandboxes/{}", arena.attacker);
    match runtime {
        Runtime::Runc => {
            arena.attack("/workspace/probe signals; kill -9 -1").await;
            assert_eq!(arena.attack("echo still here").await, "still here\n");
            // The agent is still the same process, because it knows its earlier
            // commands.
            let known = arena.service.get(&format!("{path}/process/{before}")).await;
            assert_eq!(known["commandId"], json!(before), "{known}");
            assert_eq!(
                arena.logged("an agent has disconnected"),
                Vec::<String>::new()
            );
        }
        // gVisor's first process can be killed: a sandbox ends itself, the server
        // notices, and it starts again with its files.
        Runtime::Runsc => {
            arena.attack("echo kept > kept").await;
            // The delay lets this call get its response before the attack
            // begins.
            arena.begin("sleep 1; /workspace/probe signals").await;
            eventually("the end is noticed", async || {
                arena.service.get(&path).await["state"] == "error"
            })
            .await;
            let gone = arena.logged("an agent has disconnected");
            assert!(gone[0].contains(&arena.attacker), "{gone:?}");
            assert_eq!(gone.len(), 1, "{gone:?}");
            let started = arena
                .service
                .post(&format!("{path}/start"), json!({}))
                .await;
            assert_eq!(started["state"], "running", "{started}");
            assert_eq!(arena.attack("cat kept").await, "kept\n");
        }
    }
    arena.unharmed().await;
}

async fn neither_proc_nor_sys_takes_a_write(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let places = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/pty/max",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
        "/proc/1/oom_score_adj",
        "/proc/1/attr/current",
        "/proc/1/uid_map",
        "/proc/kcore",
        "/proc/kmsg",
        "/sys/kernel/uevent_helper",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/pids/pids.max",
        "/sys/fs/cgroup/cgroup.procs",
        "/dev/mem",
        "/dev/kmsg",
        "/dev/vda",
        "/.elevo/bin/workspace-agent",
        "/.elevo/run/agent.sock",
        "/etc/passwd",
    ];
    let script = format!(
        "for file in {}; do (echo 1 > $file) 2>/dev/null && echo wrote $file; done; \
         find /sys /proc/sys /.elevo -type f -writable 2>/dev/null; echo end",
        places.join(" ")
    );
    assert_eq!(arena.attack(&script).await, "end\n");
    arena.unharmed().await;
}

async fn files_with_setuid_or_capabilities_give_none(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    // Creates files as an image could contain them, or as a root process on the
    // host could create them.
    let path = workspace(&arena.attacker);
    let host = |command: &str| {
        let ran = std::process::Command::new("sh")
            .args(["-c", command])
            .current_dir(&path)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{command}: {ran:?}");
    };
    host("cp probe setuid && chown 0:0 setuid && chmod 6755 setuid");
    host("cp probe capable && chown 0:0 capable && chmod 755 capable");
    let every = [
        1, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 0, 255, 1, 0, 0, 0, 0, 0, 0,
    ];
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path.join("capable"), "security.capability", &every, flags).unwrap();
    let made = "test -u setuid && test -g setuid && ! test -O setuid && echo made";
    assert_eq!(arena.attack(made).await, "made\n");
    for file in ["setuid", "capable"] {
        let seen = arena.attack(&format!("/workspace/{file} who")).await;
        assert_eq!(seen, "64000 64000 000000000\n", "{file}");
    }
    // Tries the setuid programs of the image.
    let seen = arena
        .attack("su -c id root </dev/null; mount -t tmpfs none /tmp")
        .await;
    assert!(!seen.contains("uid=0"), "{seen}");
    let chown = arena
        .attack("cp probe own; chown 0 own 2>/dev/null; chmod 6755 own; ./own who")
        .await;
    assert_eq!(chown, "64000 64000 000000000\n");
    let config = docker(&[
        "inspect",
        "--format",
        "{{.HostConfig.Privileged}}",
        &arena.attacker,
    ]);
    assert_eq!(config, "false\n");
    arena.unharmed().await;
}
