//! The commands of `elevo ws`, with text and JSON output.

use std::fs;
use std::path::PathBuf;

use elevo_testkit::disk::in_own_namespace;
use elevo_testkit::wait;
use serde_json::Value;

use crate::common::{Place, fields};

/// The directory that a command printed.
fn printed(place: &Place, args: &[&str]) -> PathBuf {
    place.ws(args).text().trim_end().into()
}

/// Runs a command that must fail with `code`. Returns the name of its error.
fn fails(place: &Place, code: i32, args: &[&str]) -> String {
    let ended = place.ws([&["--json"], args].concat());
    assert_eq!(ended.code, code, "{}", ended.stderr);
    let error: Value = serde_json::from_str(&ended.stderr).expect("an error as JSON");
    let name = error["error"]["name"].as_str();
    name.expect("an error has a name").to_owned()
}

#[test]
fn a_workspace_from_beginning_to_end() {
    if !in_own_namespace("ws::a_workspace_from_beginning_to_end") {
        return;
    }
    let place = Place::with_history();
    let files = printed(&place, &["create", "one", "--from", "v1"]);
    assert_eq!(
        fs::read_to_string(files.join("edited")).unwrap(),
        "one\ntwo\nthree\n"
    );
    assert_eq!(printed(&place, &["path", "one"]), files);
    let unchanged = place.ws(["status", "one"]);
    assert!(
        unchanged.stderr.contains("nothing was changed since"),
        "{}",
        unchanged.stderr
    );

    fs::write(files.join("edited"), "one\n").unwrap();
    fs::write(files.join("mine"), "mine\n").unwrap();
    fs::remove_file(files.join("old/gone")).unwrap();
    assert_eq!(
        place.ws(["status", "one"]).text(),
        "M\tedited\nA\tmine\nD\told/gone\n"
    );
    let patch = place.ws(["diff", "-p", "one", "--", "mine"]).text();
    assert!(patch.ends_with("@@ -0,0 +1 @@\n+mine\n"), "{patch}");
    assert_eq!(place.ws(["diff", "--exit-code", "one"]).code, 7);

    let fork = printed(&place, &["fork", "one", "two"]);
    assert_eq!(fs::read_to_string(fork.join("mine")).unwrap(), "mine\n");
    fs::write(fork.join("mine"), "of two\n").unwrap();
    let kept = place
        .ws(["--json", "snapshot", "two", "-m", "it works"])
        .values()
        .remove(0);
    assert_eq!(
        fields(&kept),
        ["changed", "losses", "snapshot", "workspace"]
    );
    assert_eq!(kept["changed"], true);
    let snapshot = kept["snapshot"].as_str().unwrap();
    assert_eq!(place.ok(["cat", &format!("{snapshot}:mine")]), "of two\n");
    assert_eq!(place.shown(snapshot)["message"], "it works");

    place.ws(["park", "two"]).text();
    assert!(!fork.exists());
    assert_eq!(fails(&place, 4, &["path", "two"]), "workspace_parked");
    let listed = place.ws(["--json", "ls"]).values();
    let states: Vec<_> = listed
        .iter()
        .map(|record| record["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["live", "parked"]);
    let names = [
        "base",
        "createdAt",
        "id",
        "limit",
        "path",
        "provider",
        "start",
        "state",
    ];
    assert_eq!(fields(&listed[0]), names);
    assert_eq!(printed(&place, &["resume", "two"]), fork);
    assert_eq!(fs::read_to_string(fork.join("mine")).unwrap(), "of two\n");

    assert_eq!(
        place.ws(["rm", "one", "two"]).text(),
        "Removed one\nRemoved two\n"
    );
    assert!(place.ws(["ls"]).text().is_empty());
    assert!(!files.exists() && !fork.exists());
}

#[test]
fn writes_beyond_the_limit_of_a_workspace_fail() {
    if !in_own_namespace("ws::writes_beyond_the_limit_of_a_workspace_fail") {
        return;
    }
    let place = Place::with_history();
    let files = printed(&place, &["create", "one", "--limit", "8M"]);
    let fork = printed(&place, &["fork", "one", "two"]);
    for files in [&files, &fork] {
        fs::write(files.join("fits"), vec![1; 4 << 20]).unwrap();
        let too_much = fs::write(files.join("too much"), vec![2; 16 << 20]);
        assert!(too_much.is_err());
    }
    let listed = place.ws(["--json", "ls"]).values();
    assert!(
        listed.iter().all(|record| record["limit"] == 8 << 20),
        "{listed:?}"
    );
    place.ws(["rm", "--discard", "one", "two"]).text();
}

#[test]
fn invalid_requests_are_rejected_with_an_error_name() {
    if !in_own_namespace("ws::invalid_requests_are_rejected_with_an_error_name") {
        return;
    }
    let place = Place::with_history();
    for (code, args, name) in [
        (3, &["path", "nobody"][..], "workspace_not_found"),
        (3, &["create", "--from", "nothing"], "snapshot_not_found"),
        (2, &["create", "A/B"], "workspace_invalid"),
        (2, &["create", "--limit", "lots"], "usage"),
        (2, &["create", "--provider", "magic"], "usage"),
        (
            2,
            &["create", "--provider", "copy", "--limit", "1G"],
            "limit_unsupported",
        ),
    ] {
        assert_eq!(fails(&place, code, args), name, "{args:?}");
    }
    printed(&place, &["create", "one"]);
    assert_eq!(fails(&place, 4, &["create", "one"]), "workspace_exists");
    assert_eq!(fails(&place, 4, &["resume", "one"]), "workspace_not_parked");
    place.ws(["rm", "one"]).text();
}

/// The processes that serve snapshots for workspaces of this place.
fn servers(place: &Place) -> Vec<u32> {
    let root = place.root().to_str().expect("a path is text").to_owned();
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten();
    let serves = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&line).replace('\0', " ");
        words.contains(" ws serve ") && words.contains(&root)
    };
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(serves).collect()
}

/// Kills the processes that serve snapshots, even if the test fails.
struct Ended<'a>(&'a Place);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        for pid in servers(self.0) {
            let mut kill = std::process::Command::new("kill");
            let _ = kill.args(["-9", &pid.to_string()]).status();
        }
    }
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    wait::until(what, || holds().then_some(()));
}

#[test]
fn a_lazy_workspace_is_served_until_it_goes() {
    if !in_own_namespace("ws::a_lazy_workspace_is_served_until_it_goes") {
        return;
    }
    let place = Place::with_history();
    let _ended = Ended(&place);
    let lazy = |id| {
        printed(
            &place,
            &["create", id, "--from", "v1", "--provider", "lazy"],
        )
    };
    let files = lazy("one");
    assert_eq!(
        fs::read_to_string(files.join("edited")).unwrap(),
        "one\ntwo\nthree\n"
    );
    fs::write(files.join("mine"), "mine\n").unwrap();
    fs::remove_file(files.join("old/gone")).unwrap();
    assert_eq!(place.ws(["status", "one"]).text(), "A\tmine\nD\told/gone\n");
    // The process that serves the snapshot does not block writers.
    place.ws(["snapshot", "one", "-m", "kept"]).text();

    let serving = servers(&place);
    assert_eq!(serving.len(), 1);
    let layers = files.ancestors().nth(3).unwrap().join("layers");
    eventually("the snapshot is written out", || {
        let layers = fs::read_dir(&layers).unwrap().flatten();
        layers
            .into_iter()
            .any(|layer| layer.path().join("about").exists())
    });
    let next = lazy("next");
    assert_eq!(servers(&place), serving);
    let killed = std::process::Command::new("kill")
        .args(["-9", &serving[0].to_string()])
        .status();
    assert!(killed.unwrap().success());
    eventually("the process is dead", || servers(&place).is_empty());
    // The kernel has cached the files that were read before, and no others.
    assert!(fs::read(files.join("edited")).is_ok());
    assert!(fs::read(files.join("kept")).is_err());
    assert!(fs::read(next.join("edited")).is_ok());
    // `path` mounts the workspace on the layer that was written out.
    assert_eq!(printed(&place, &["path", "one"]), files);
    assert!(fs::read(files.join("kept")).is_ok());
    assert_eq!(fs::read_to_string(files.join("mine")).unwrap(), "mine\n");

    place.ws(["rm", "one", "next"]).text();
    eventually("no process serves a snapshot", || {
        servers(&place).is_empty()
    });
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(place.root().to_str().unwrap()), "{mounts}");
}
