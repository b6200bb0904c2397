//! The programs that agents run, in a workspace of every provider: each works,
//! and its files survive a snapshot, a fork, and parking.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "the programs need a PATH")]

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use elevo_workspace::{Freeze, NeverFreeze, Workspaces};
use rustix::process::{Pid, Signal, kill_process_group};
use support::providers::on_every_provider;
use support::{Fixture, id, info, progress};

on_every_provider! {
    git_works
    editors_and_archivers_work
    npm_installs
    a_build_is_not_repeated_in_a_fork_or_after_parking
    a_fork_during_writes_of_sqlite_is_not_damaged
}

/// Runs a shell script and returns its output.
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
        .env("npm_config_offline", "true")
        .env("npm_config_update_notifier", "false")
        .env("npm_config_registry", "http://127.0.0.1:9/")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{script}: {said}");
    said
}

fn create(fixture: &Fixture, workspaces: &Workspaces) -> PathBuf {
    let created = workspaces.create(&id("one"), fixture.base, fixture.now(), None, &progress());
    created.unwrap()
}

/// Returns a fork with the same files, and the workspace after parking and
/// resuming.
fn copies(fixture: &Fixture, workspaces: &Workspaces) -> [PathBuf; 2] {
    let files = workspaces.path(&id("one")).unwrap();
    let tree = fixture.plain_import(&files);
    let times = fixture.times(&files);
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
        assert_eq!(fixture.plain_import(copy), tree);
        assert_eq!(fixture.times(copy), times);
    }
    copies
}

fn git_works(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = create(fixture, &workspaces);
    sh(
        &files,
        "git init -q origin && cd origin && seq 1000 > numbers && git add . && git commit -qm one
             cd .. && git clone -q origin clone && cd clone
             for n in 1 2 3; do echo $n >> numbers; git commit -qam $n; done
             git checkout -qb side HEAD~2 && echo side > side && git add . && git commit -qm side
             git merge -q -m merge - && git gc -q --aggressive --prune=now && git fsck --strict",
    );
    for copy in copies(fixture, &workspaces) {
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
}

fn editors_and_archivers_work(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = create(fixture, &workspaces);
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
    for copy in copies(fixture, &workspaces) {
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
}

/// Installs a package from a directory, one from an archive, and runs their
/// script, without a registry.
fn npm_installs(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = create(fixture, &workspaces);
    sh(
        &files,
        r#"mkdir -p left/bin app && cd left
           echo '{"name":"left","version":"1.2.3","bin":{"left":"bin/left.js"}}' > package.json
           printf '#!/usr/bin/env node\nconsole.log(require("left").side)\n' > bin/left.js
           echo 'exports.side = "left"' > index.js
           mkdir ../right && echo '{"name":"right","version":"0.1.0"}' > ../right/package.json
           echo 'module.exports = "right"' > ../right/index.js
           npm pack --silent
           cd ../app && echo '{"name":"app","version":"1.0.0","scripts":{"go":"left"}}' > package.json
           npm install --no-audit --no-fund ../left/left-1.2.3.tgz ../right
           npm run --silent go | grep -x left"#,
    );
    for copy in copies(fixture, &workspaces) {
        let app = copy.join("app");
        let said = sh(&app, "npm ls --parseable && npm run --silent go");
        assert!(said.ends_with("left\n"), "{said}");
        sh(
            &app,
            "node -e 'if (require(\"right\") !== \"right\") throw 1'",
        );
        sh(
            &app,
            "npm ci --no-audit --no-fund && test -L node_modules/.bin/left",
        );
    }
}

fn a_build_is_not_repeated_in_a_fork_or_after_parking(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = create(fixture, &workspaces);
    // Cargo identifies a package by its path, so each workspace is mounted at
    // the same path.
    let seen = fixture.root.join("seen");
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
    for copy in copies(fixture, &workspaces) {
        let again = at_seen(&copy, &build);
        assert!(!again.contains("Compiling"), "{again}");
        assert!(again.contains("Fresh tool"), "{again}");
    }
}

/// A process group that can be paused.
struct Stopped(Pid);

impl Freeze for Stopped {
    fn freeze(&self) -> std::io::Result<()> {
        kill_process_group(self.0, Signal::STOP)?;
        // The signal was sent, but may not have been delivered yet.
        let group = self.0.as_raw_nonzero().to_string();
        while !states_of(&group).iter().all(|state| state == "T") {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn thaw(&self) {
        kill_process_group(self.0, Signal::CONT).unwrap();
    }
}

/// Returns the states of the processes of a group, as the letters of `/proc`.
fn states_of(group: &str) -> Vec<String> {
    let stats = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("stat")).ok());
    let state = |stat: String| {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = rest.split(' ').collect();
        (fields[2] == group).then(|| fields[0].to_owned())
    };
    stats.filter_map(state).collect()
}

fn a_fork_during_writes_of_sqlite_is_not_damaged(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = create(fixture, &workspaces);
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
    let group = Pid::from_child(&writer);
    // With a pool, all files are of one moment; otherwise the writer must be
    // paused.
    let stopped = Stopped(group);
    let freeze: &dyn Freeze = if fixture.pool.is_some() {
        &NeverFreeze
    } else {
        &stopped
    };
    let rows = "sqlite3 -cmd '.timeout 5000' db 'pragma integrity_check; select count(*) from t'";
    let mut last = 0;
    for round in 0..10 {
        // The writer must have written since the last fork.
        let committed = loop {
            let committed = count_rows(&sh(&files, rows));
            if committed > last {
                break committed;
            }
        };
        let fork = id(&format!("fork-{round}"));
        let into = std::slice::from_ref(&fork);
        workspaces
            .fork(&id("one"), into, info(), freeze, &progress())
            .unwrap();
        let copy = workspaces.path(&fork).unwrap();
        let count = count_rows(&sh(&copy, rows));
        assert!(count >= committed, "{count} after {committed}");
        last = count;
    }
    kill_process_group(group, Signal::KILL).unwrap();
    writer.wait().unwrap();
}

/// Returns the number of rows, which follows the result of an integrity check
/// in the output.
fn count_rows(output: &str) -> u64 {
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[0], "ok", "{output}");
    lines[1].parse().unwrap()
}
