//! Workspaces that outlive their sandbox.

use serde_json::Value;

use crate::server::Server;

#[test]
fn a_kept_workspace_is_listed_resumed_and_removed() {
    let server = Server::start();
    let id = server.sandbox();
    server.ok(["exec", &id, "--", "echo mine > file"]);
    server.ok(["sandbox", "rm", "--keep-workspace", &id]);
    let listed = server.ok(["ws", "ls", "--parked", "-l"]);
    assert!(
        listed.contains(&id) && listed.contains("parked"),
        "{listed}"
    );
    let listed: Value =
        serde_json::from_str(&server.ok(["ws", "ls", "--parked", "--json"])).unwrap();
    assert!(listed["expiresAt"].is_string(), "{listed}");

    let create = [
        "sandbox",
        "create",
        "base",
        "--workspace",
        &id,
        "--on-expiry",
        "delete",
    ];
    let second = server.ok(create).trim().to_owned();
    assert_eq!(server.ok(["exec", &second, "--", "cat file"]), "mine\n");
    let shown: Value =
        serde_json::from_str(&server.ok(["sandbox", "show", "--json", &second])).unwrap();
    assert_eq!(shown["workspace"], Value::from(id.as_str()));
    assert_eq!(shown["onExpiry"], "delete");
    let refused = server.run(["ws", "rm", "--parked", "--json", &id]);
    assert_eq!(refused.name(), "workspace_not_parked");

    // The workspace cannot be deleted through the store that the server holds
    // either.
    server.ok(["sandbox", "rm", "--keep-workspace", &second]);
    let store = server.data().join("store");
    let refused = server.run([
        "ws",
        "rm",
        "--json",
        "--store",
        store.to_str().unwrap(),
        &id,
    ]);
    assert_eq!(refused.name(), "workspace_parked", "{}", refused.stderr);
    let refused = server.run(["ws", "rm", "--parked", "--json", &id]);
    assert_eq!(refused.name(), "parked_work", "{}", refused.stderr);
    server.ok(["ws", "rm", "--parked", "--discard", &id]);
    assert_eq!(server.ok(["ws", "ls", "--parked", "--json"]), "");
}
