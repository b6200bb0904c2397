//! Garbage collection of a store.

use crate::common::{Place, fields};

#[test]
fn gc_deletes_unnamed_snapshots_with_their_files() {
    let place = Place::with_history();
    place.write("lost", "nobody wants this\n");
    let lost = place.json_one(["commit", "--detach", "-m", "a try"]);
    let lost = lost["snapshot"].as_str().expect("an id");
    place.ok(["checkout", "head", "--force"]);
    assert_eq!(
        place.ok(["store", "gc"]),
        "Nothing to delete\n",
        "it is new"
    );
    let would = place.json_one(["store", "gc", "--keep", "0", "--dry-run"]);
    let names = [
        "dry_run",
        "full",
        "objects_marked",
        "objects_removed",
        "objects_seen",
        "snapshots_removed",
    ];
    assert_eq!(fields(&would), names);
    assert_eq!(would["snapshots_removed"], 1, "{would}");
    place.ok(["show", lost]);
    let printed = place.ok(["store", "gc", "--keep", "0"]);
    assert!(printed.starts_with("Deleted 1 snapshot and "), "{printed}");
    place.fails(3, ["show", lost]);
    for name in ["v1", "v2", "head"] {
        place.ok(["ls", name]);
    }
    assert_eq!(place.json_one(["store", "verify"])["whole"], true);
    let young = place.json_one(["store", "gc", "--keep", "0", "--young"]);
    assert_eq!(young["full"], false, "{young}");
}

#[test]
fn gc_keeps_the_snapshots_of_the_directory_and_workspaces() {
    let place = Place::with_history();
    place.write("here", "only here\n");
    place.ok(["commit", "--detach", "-m", "held by the directory"]);
    let elsewhere = place.root().join("elsewhere");
    let elsewhere = elsewhere.to_str().expect("a path");
    for arguments in [
        vec!["create", "beside", "--from", "v1", "--provider", "copy"],
        vec![
            "--workspaces",
            elsewhere,
            "create",
            "far",
            "--from",
            "v1",
            "--provider",
            "copy",
        ],
    ] {
        place.ws(arguments).text();
    }
    place.ok(["tag", "v1", "--delete"]);
    place.ok(["tag", "v2", "--delete"]);
    assert_eq!(
        place.ok(["store", "gc", "--keep", "0"]),
        "Nothing to delete\n"
    );
    place
        .ws(["--workspaces", elsewhere, "status", "far"])
        .text();
    place.write("here", "and more\n");
    place.ok(["commit", "--detach", "-m", "goes on"]);
}
