//! The programs that agents run, in a workspace with a pool: each works, and
//! what it leaves survives a snapshot, a fork and a return from the store.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "what is run needs a PATH")]

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use elevo_testkit::disk;
use elevo_workspace::{NeverFreeze, Workspaces};
use support::{Bench, id, info, progress};

/// Runs a script of a shell; returns what it printed.
fn sh(directory: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(directory)
        .env("HOME", directory)
        .env("GIT_AUTHOR_NAME", "agent")
        .env("GIT_AUTHOR_EMAIL", "agent@localhost")
        .env("GIT_COMMITTER_NAME", "agent")
        .env("GIT_COMMITTER_EMAIL", "agent@localhost")
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{script}: {said}");
    said
}

/// Runs `test` in a namespace of its own, with a workspace.
fn with_workspace(name: &str, test: impl FnOnce(&Bench, &Workspaces, PathBuf)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        let bench = Bench::pooled(directory.path());
        let workspaces = bench.open();
        let created = workspaces.create(&id("one"), bench.base, bench.now(), None, &progress());
        test(&bench, &workspaces, created.unwrap());
    }
}

/// The same files in a fork, and in the workspace after it was parked.
fn copies(bench: &Bench, workspaces: &Workspaces) -> [PathBuf; 2] {
    let files = workspaces.path(&id("one")).unwrap();
    let tree = bench.plain_import(&files);
    let times = bench.times(&files);
    let fork = id("fork");
    let into = std::slice::from_ref(&fork);
    workspaces
        .fork(&id("one"), into, info(), &NeverFreeze, &progress())
        .unwrap();
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    let resumed = workspaces.resume(&id("one"), &progress()).unwrap();
    let copies = [workspaces.path(&fork).unwrap(), resumed];
    for copy in &copies {
        assert_eq!(bench.plain_import(copy), tree);
        assert_eq!(bench.times(copy), times);
    }
    copies
}

#[test]
fn git_works() {
    with_workspace("git_works", |bench, workspaces, files| {
        sh(
            &files,
            "git init -q origin && cd origin && seq 1000 > numbers && git add . && git commit -qm one
             cd .. && git clone -q origin clone && cd clone
             for n in 1 2 3; do echo $n >> numbers; git commit -qam $n; done
             git checkout -qb side HEAD~2 && echo side > side && git add . && git commit -qm side
             git merge -q -m merge - && git gc -q --aggressive --prune=now && git fsck --strict",
        );
        for copy in copies(bench, workspaces) {
            let clone = copy.join("clone");
            let log = sh(
                &clone,
                "git fsck --strict && git status --porcelain && git log --oneline",
            );
            assert_eq!(
                log.lines().filter(|line| line.contains("merge")).count(),
                1,
                "{log}"
            );
            sh(
                &clone,
                "echo more >> side && git commit -qam more && git gc -q",
            );
        }
    });
}

#[test]
fn editors_and_archivers_work() {
    with_workspace("editors_and_archivers_work", |bench, workspaces, files| {
        sh(
            &files,
            r#"sed -i 's/main/other/' src/main.rs
               vim.tiny -u NONE -es -c '%s/other/edited/' -c 'wq' src/main.rs
               mkdir in && seq 100 > in/numbers && ln -s numbers in/link && ln in/numbers hard
               chmod 750 in/numbers && touch -d 2001-02-03T04:05:06.789 in/numbers
               rsync -a in/ out/ && rsync -a --delete --inplace in/ out/
               tar -cf all.tar in && mkdir un && tar -xf all.tar -C un
               mv src renamed && mv renamed/main.rs src.rs && rmdir renamed && mkdir renamed"#,
        );
        for copy in copies(bench, workspaces) {
            assert_eq!(sh(&copy, "cat src.rs"), "fn edited() {}\n");
            sh(
                &copy,
                "diff -r in out && diff -r in un/in && tar -df all.tar && test -d renamed",
            );
            sh(
                &copy,
                "test $(stat -c %a out/numbers) = 750 && test ! -e src",
            );
        }
    });
}

#[test]
fn a_build_is_not_made_again_in_a_fork_or_after_a_return() {
    let name = "a_build_is_not_made_again_in_a_fork_or_after_a_return";
    with_workspace(name, |bench, workspaces, files| {
        // Cargo knows a package by its path: everybody sees it at the same.
        let seen = bench.root.join("seen");
        fs::create_dir(&seen).unwrap();
        let at_seen = |files: &Path, script: &str| {
            let mount = |args: &[&std::ffi::OsStr]| {
                assert!(Command::new("mount").args(args).status().unwrap().success());
            };
            mount(&["--bind".as_ref(), files.as_ref(), seen.as_ref()]);
            let said = sh(&seen, script);
            let status = Command::new("umount").arg(&seen).status().unwrap();
            assert!(status.success());
            said
        };
        let cargo = env!("CARGO");
        sh(
            &files,
            "mkdir lib && echo 'pub fn two() -> u32 { 2 }' > lib/lib.rs
             printf '[package]\\nname=\"helper\"\\nedition=\"2021\"\\n[lib]\\npath=\"lib.rs\"\\n' > lib/Cargo.toml
             printf '[workspace]\\n[package]\\nname=\"tool\"\\nedition=\"2021\"\\n[dependencies]\\nhelper={path=\"lib\"}\\n' > Cargo.toml
             echo 'fn main() { println!(\"{}\", helper::two()) }' > src/main.rs
             echo 'fn main() { println!(\"cargo:rerun-if-changed=build.rs\") }' > build.rs",
        );
        let home = std::env::var("CARGO_HOME").unwrap_or_else(|_| {
            let home = std::env::var("HOME").unwrap();
            format!("{home}/.cargo")
        });
        let rustup = std::env::var("RUSTUP_HOME").unwrap_or_else(|_| {
            let home = std::env::var("HOME").unwrap();
            format!("{home}/.rustup")
        });
        let build = format!("export CARGO_HOME={home} RUSTUP_HOME={rustup}; {cargo} build -v 2>&1");
        let first = at_seen(&files, &build);
        assert!(first.contains("Compiling tool"), "{first}");
        for copy in copies(bench, workspaces) {
            let again = at_seen(&copy, &build);
            assert!(!again.contains("Compiling"), "{again}");
            assert!(again.contains("Fresh tool"), "{again}");
        }
    });
}

#[test]
fn a_fork_beside_a_writer_of_sqlite_is_not_damaged() {
    let name = "a_fork_beside_a_writer_of_sqlite_is_not_damaged";
    with_workspace(name, |_, workspaces, files| {
        sh(
            &files,
            "sqlite3 db 'pragma journal_mode=wal; create table t (n integer primary key, x blob);'",
        );
        let script = "while :; do echo \"insert into t (x) values (randomblob(3000));\"; done \
                      | sqlite3 -cmd '.timeout 5000' db";
        let mut writer = Command::new("bash")
            .args(["-c", script])
            .current_dir(&files)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut last = 0;
        for round in 0..10 {
            std::thread::sleep(std::time::Duration::from_millis(60));
            let fork = id(&format!("fork-{round}"));
            let into = std::slice::from_ref(&fork);
            workspaces
                .fork(&id("one"), into, info(), &NeverFreeze, &progress())
                .unwrap();
            let copy = workspaces.path(&fork).unwrap();
            let said = sh(
                &copy,
                "sqlite3 db 'pragma integrity_check; select count(*) from t'",
            );
            let lines: Vec<_> = said.lines().collect();
            assert_eq!(lines[0], "ok", "{said}");
            let count: u64 = lines[1].parse().unwrap();
            assert!(count >= last, "{count} after {last}");
            last = count;
        }
        let group = rustix::process::Pid::from_child(&writer);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        writer.wait().unwrap();
        assert!(last > 0, "nothing was written meanwhile");
    });
}
