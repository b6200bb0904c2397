//! Events, webhooks and the audit log.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Server, elevo};

fn lines(text: &str) -> Vec<Value> {
    let values = text.lines().map(serde_json::from_str::<Value>);
    values.collect::<Result<_, _>>().unwrap()
}

#[test]
fn events_are_listed_and_followed_over_a_restart() {
    let mut server = Server::new();
    server.up();
    let mut following = server
        .command(["events", "--follow", "--after", "0", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut followed = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next =
        || -> Value { serde_json::from_str(&followed.next().unwrap().unwrap()).unwrap() };
    let land = |server: &Server, n: u32| {
        let made = server.ok(["ws", "create", "--project", "site", "--json"]);
        let made: Value = serde_json::from_str(&made).unwrap();
        let path = made["path"].as_str().unwrap();
        fs::write(format!("{path}/file"), n.to_string()).unwrap();
        server.ok(["ws", "merge", made["id"].as_str().unwrap()]);
    };
    server.ok(["project", "create", "site"]);
    land(&server, 1);
    assert_eq!(next()["kind"], "project.landed");
    server.end(Signal::KILL);
    server.up();
    land(&server, 2);
    let second = next();
    assert_eq!(second["kind"], "project.landed");
    following.kill().unwrap();
    following.wait().unwrap();
    let listed = lines(&server.ok(["events", "--json", "--kind", "project.landed"]));
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1], second);
    let after = listed[0]["id"].to_string();
    assert_eq!(
        lines(&server.ok(["events", "--json", "--after", &after])),
        [second]
    );
    let text = server.ok(["events"]);
    assert!(text.contains("project.landed"), "{text}");
    let wrong = server.run(["events", "--kind", "nothing", "--json"]);
    assert_eq!((wrong.code, wrong.name().as_str()), (2, "invalid_request"));
}

#[test]
fn webhooks_are_added_and_removed() {
    let mut server = Server::new();
    server.up();
    server.write("hook.key", b"a secret\n");
    let refused = server.run(["webhook", "create", "http://127.0.0.1:9/", "--json"]);
    assert_eq!(refused.name(), "invalid_request");
    let key = server.directory.path().join("hook.key");
    let id = server.ok([
        "webhook",
        "create",
        "https://example.com/hook",
        "--kind",
        "review.opened",
        "--secret-file",
        key.to_str().unwrap(),
    ]);
    let id = id.trim();
    let listed = lines(&server.ok(["webhook", "ls", "--json"]));
    assert_eq!(listed[0]["id"], id);
    assert_eq!(listed[0]["signed"], true);
    assert_eq!(listed[0]["kinds"][0], "review.opened");
    let table = server.ok(["webhook", "ls"]);
    assert!(table.contains("https://example.com/hook"), "{table}");
    assert_eq!(server.ok(["webhook", "deliveries", id, "--json"]), "");
    let secret = server.ok(["webhook", "rotate", id, "--keep", "1h"]);
    assert!(secret.starts_with("whsec_"), "{secret}");
    let shown = server.ok(["webhook", "show", "https://example.com/hook"]);
    assert!(shown.contains("also with the previous secret"), "{shown}");
    let shown = server.run(["webhook", "show", "wh-none", "--json"]);
    assert_eq!(shown.name(), "webhook_not_found");
    server.ok(["webhook", "rm", id]);
    assert_eq!(server.ok(["webhook", "ls", "--json"]), "");
}

#[test]
fn the_audit_log_is_listed_and_verified_against_a_saved_head() {
    let mut server = Server::new();
    let data = server.data();
    let missing = elevo()
        .args(["audit", "verify", "--json", "--data"])
        .arg(&data)
        .output();
    assert_eq!(missing.unwrap().status.code(), Some(3));
    server.up();
    server.ok(["project", "create", "site"]);
    server.ok(["project", "create", "other"]);
    let made = lines(&server.ok(["audit", "log", "--event", "project.created", "--json"]));
    assert_eq!(made.len(), 2);
    assert!(made[0]["user"].as_str().unwrap().starts_with("key-"));
    let text = server.ok(["audit", "log", "--event", "project.", "-n", "1"]);
    assert!(text.contains("project.created"), "{text}");
    assert_eq!(text.lines().count(), 1);
    let whole: Value = serde_json::from_str(&server.ok(["audit", "verify", "--json"])).unwrap();
    assert_eq!(whole["whole"], true, "{whole}");
    let head = whole["head"].as_str().unwrap();
    server.ok(["project", "create", "third"]);
    server.ok(["audit", "verify", "--expect", head]);
    server.end(Signal::TERM);
    // First one word is changed, then the end is cut off.
    let file = data.join("audit/00000000000000000001.jsonl");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        before.replacen("project.created", "project.touched", 1),
    )
    .unwrap();
    let changed = server.run(["audit", "verify"]);
    assert_eq!(changed.code, 6, "{}", changed.stderr);
    let said = String::from_utf8(changed.stdout).unwrap();
    assert!(said.contains("was changed after it was written"), "{said}");
    let cut: String = before
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&file, cut).unwrap();
    assert_eq!(server.run(["audit", "verify"]).code, 0);
    assert_eq!(server.run(["audit", "verify", "--expect", head]).code, 6);
}
