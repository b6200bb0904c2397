//! The metadata of sandboxes, and the key that commands use.

use serde_json::{Value, json};

use crate::server::Server;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap()
}

#[test]
fn sandboxes_are_labelled_listed_and_changed() {
    let server = Server::start();
    let other = server.sandbox();
    let create = ["sandbox", "create", "--metadata", "run=7"];
    let create = create.into_iter().chain(["--metadata", "url=a=b:c"]);
    let id = server.ok(create).trim().to_owned();
    let listed = server.ok(["sandbox", "ls", "-l", "--metadata", "url=a=b:c"]);
    assert!(listed.contains(&id) && !listed.contains(&other), "{listed}");

    let set = [
        "sandbox",
        "set",
        &id,
        "--name",
        "try",
        "--metadata",
        "run=8",
    ];
    let set = set.into_iter().chain(["--no-metadata", "url", "--json"]);
    let changed = json_of(&server.ok(set));
    assert_eq!(changed["name"], "try", "{changed}");
    assert_eq!(changed["metadata"], json!({"run": "8"}));
    let shown = server.ok(["sandbox", "show", "try"]);
    assert!(shown.contains("run=8"), "{shown}");
    let fork = ["sandbox", "fork", "try", "--metadata", "part=1"];
    let fork = fork.into_iter().chain(["-e", "A=b", "--json"]);
    let fork = json_of(&server.ok(fork));
    assert_eq!(fork["metadata"], json!({"run": "8", "part": "1"}));
    let forked = fork["id"].as_str().unwrap();
    assert_eq!(server.ok(["exec", forked, "--", "echo $A"]), "b\n");
    let shown = server.ok(["sandbox", "show", forked]);
    assert!(shown.contains(&format!("fork of {id}")), "{shown}");

    let unnamed = json_of(&server.ok(["sandbox", "set", "try", "--no-name", "--json"]));
    assert_eq!(unnamed.get("name"), None, "{unnamed}");
    let late = [
        "sandbox",
        "set",
        &id,
        "--expires-at",
        "9999-01-01T00:00:00Z",
    ];
    let late = server.run(late.into_iter().chain(["--json"]));
    assert_eq!(late.name(), "lifetime_exceeded");
    let nothing = server.run(["sandbox", "set", &id]);
    assert_eq!(nothing.code, 2, "{}", nothing.stderr);
}

#[test]
fn whoami_shows_the_key_and_its_limits() {
    let server = Server::start();
    server.ok(["agent", "create", "ada"]);
    server.ok(["key", "create", "--agent", "ada", "-o", "ada.key"]);
    let who = server.ok(["whoami", "--key-file", "ada.key"]);
    for part in ["ada", "sandboxes:write", "100 more are allowed"] {
        assert!(who.contains(part), "{part}: {who}");
    }
    let who = json_of(&server.ok(["whoami", "--key-file", "ada.key", "--json"]));
    assert_eq!(who["me"]["agent"]["name"], "ada", "{who}");
    assert_eq!(who["me"]["left"]["creates"], 60, "{who}");
    assert_eq!(who["key_valid"], true, "{who}");
}
