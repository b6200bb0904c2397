//! Stores that `elevo` of earlier versions created.

use std::fs;

use elevo_testkit::fixtures;

use crate::common::Place;

#[test]
fn a_store_of_an_earlier_version_has_its_history_and_takes_commits() {
    for fixture in fixtures::all() {
        let place = Place::bare();
        fixture.unpack_into("local.tar.gz", place.root());
        let log = place.json(["log"]);
        let expected = fixture.expected();
        let expected = expected["local"].as_array().unwrap();
        assert_eq!(log.len(), expected.len());
        for (entry, expected) in log.iter().zip(expected) {
            assert_eq!(entry["snapshot"], expected["snapshot"]);
            assert_eq!(entry["message"], expected["message"]);
        }
        let first = expected[1]["snapshot"].as_str().unwrap();
        assert_eq!(place.id("v1"), first);
        let page = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        assert_eq!(place.ok(["cat", "v1:page.md"]), page);
        let out = place.root().join("out");
        place.ok(["checkout", "head", out.to_str().unwrap()]);
        assert_eq!(
            fs::read_to_string(out.join("link")).unwrap(),
            format!("{page}eight\n")
        );
        assert!(place.ok(["status"]).contains("uncommitted.txt"));
        place.ok(["commit", "-m", "third"]);
        assert_eq!(place.json(["log"]).len(), log.len() + 1);
        place.ok(["store", "verify"]);
    }
}

#[test]
fn workspaces_of_an_earlier_version_are_resumed_and_merged() {
    for fixture in fixtures::all() {
        let place = Place::bare();
        fixture.unpack_into("local.tar.gz", place.root());
        let parked = place.ok(["ws", "resume", "parked"]);
        let parked = fs::read_to_string(format!("{}/parked.txt", parked.trim_end()));
        assert_eq!(parked.unwrap(), "parked\n");
        let live = place.ok(["ws", "path", "live"]);
        let live = fs::read_to_string(format!("{}/unmerged.txt", live.trim_end()));
        assert_eq!(live.unwrap(), "unmerged\n");
        for workspace in ["parked", "live"] {
            place.ok(["ws", "merge", workspace, "--rm"]);
        }
        assert_eq!(place.ok(["cat", "head:parked.txt"]), "parked\n");
        assert_eq!(place.ok(["cat", "head:unmerged.txt"]), "unmerged\n");
    }
}
