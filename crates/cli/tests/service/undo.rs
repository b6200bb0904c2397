//! Reverts of steps of a project, and restores of paths.

use crate::server::Server;

/// A server with the project `site`, whose file `f` has three versions.
fn with_versions() -> Server {
    let mut server = Server::new();
    server.up();
    server.ok(["project", "create", "site"]);
    let middle = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let versions = [
        middle.to_owned(),
        middle.replace('2', "two"),
        middle.replace('2', "two").replace('8', "eight"),
    ];
    for (at, version) in versions.iter().enumerate() {
        server.write("in/f", version.as_bytes());
        server.write("in/g", format!("{at}\n").as_bytes());
        server.ok(["project", "import", "site", "in"]);
    }
    server
}

fn cat(server: &Server, path: &str) -> String {
    server.ok(["project", "cat", &format!("site:{path}")])
}

#[test]
fn a_revert_of_a_path_undoes_what_the_step_changed_there() {
    let server = with_versions();
    let undone = server.ok(["project", "revert", "site", "2", "--", "f"]);
    assert!(undone.contains("M  f"), "{undone}");
    assert_eq!(cat(&server, "f"), "1\n2\n3\n4\n5\n6\n7\neight\n9\n");
    assert_eq!(cat(&server, "g"), "2\n");
    let log = server.ok(["project", "log", "site", "-n", "1"]);
    assert!(log.contains("undo step 2 at f"), "{log}");
    let step = ["project", "revert", "site", "4", "--json", "--", "g"];
    let unchanged = server.run(step);
    assert_eq!(
        (unchanged.code, unchanged.name().as_str()),
        (3, "path_not_found")
    );
    // A path without `--` is rejected, because it had another meaning in older
    // versions.
    assert_eq!(server.run(["project", "revert", "site", "2", "f"]).code, 2);
}

#[test]
fn a_restore_brings_a_path_back_as_it_was() {
    let server = with_versions();
    let restored = server.ok(["project", "restore", "site", "f", "--from", "1"]);
    assert!(restored.contains("M  f"), "{restored}");
    assert_eq!(cat(&server, "f"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert_eq!(cat(&server, "g"), "2\n");
    let log = server.ok(["project", "log", "site", "-n", "1"]);
    assert!(log.contains("restore f from step 1"), "{log}");
}
