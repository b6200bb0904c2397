//! A server whose mounts or directories the container engine does not see, like
//! one in a container.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::server::{Server, agent};

/// Starts the server in a separate mount namespace, after a shell command.
fn up_apart(server: &mut Server, before: &str) {
    let inner = server.up_command();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("{before} exec \"$@\""))
        .arg("sh")
        .arg(inner.get_program())
        .args(inner.get_args())
        .stdin(Stdio::null());
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.env("AGENT_BINARY", agent());
    let hidden = server.directory.path().join("hidden");
    if !before.is_empty() {
        command.env("WORKSPACE_ROOT", hidden);
    }
    server.up_by(command);
    let image = elevo_testkit::docker::tiny_image();
    server.ok(["template", "create", &image, "--name", "base"]);
}

/// The check `mounts` of the server.
fn mounts(server: &Server) -> Value {
    let status = server.ok(["server", "status", "--json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["ready"], true, "{status}");
    let checks = status["checks"].as_array().unwrap().iter();
    checks
        .clone()
        .find(|it| it["name"] == "mounts")
        .unwrap()
        .clone()
}

#[test]
fn sandboxes_have_copies_if_the_engine_does_not_see_mounts() {
    let mut server = Server::new();
    up_apart(&mut server, "");
    let check = mounts(&server);
    assert_eq!(check["ok"], false, "{check}");
    assert!(
        check["message"].as_str().unwrap().contains("rshared"),
        "{check}"
    );

    server.write("site/page", b"one\n");
    server.ok(["project", "create", "site", "--from", "site"]);
    let create = ["sandbox", "create", "base", "--project", "site"];
    let id = server.ok(create);
    let id = id.trim_end();
    assert_eq!(
        server.ok(["exec", id, "--", "cat page && echo two >> page"]),
        "one\n"
    );
    let fork = server.ok(["sandbox", "fork", id]);
    assert_eq!(
        server.ok(["exec", fork.trim_end(), "--", "cat page"]),
        "one\ntwo\n"
    );
    let reader = server.ok(create.iter().copied().chain(["--read-only"]));
    assert_eq!(
        server.ok(["exec", reader.trim_end(), "--", "cat page"]),
        "one\n"
    );
    server.ok(["ws", "merge", id]);
    assert_eq!(server.ok(["project", "cat", "site:page"]), "one\ntwo\n");
    let log = std::fs::read_to_string(server.data().join("server.log")).unwrap();
    let warnings = log
        .lines()
        .filter(|line| line.contains("does not see the server's mounts"));
    assert_eq!(warnings.count(), 1, "{log}");
    for id in [id, fork.trim_end(), reader.trim_end()] {
        server.ok(["sandbox", "rm", id]);
    }
}

#[test]
fn a_sandbox_is_rejected_if_the_engine_does_not_see_its_directory() {
    let mut server = Server::new();
    let hidden = server.directory.path().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    let mount = format!("mount -t tmpfs none '{}' &&", hidden.display());
    up_apart(&mut server, &mount);
    assert_eq!(mounts(&server)["ok"], false);
    let refused = server.run(["sandbox", "create", "base", "--json"]);
    assert_eq!(refused.name(), "sandbox_start_failed", "{}", refused.stderr);
    let words = format!("does not see the server's directory {}", hidden.display());
    assert!(refused.stderr.contains(&words), "{}", refused.stderr);
}

#[test]
fn the_engine_sees_the_mounts_of_a_server_beside_it() {
    let mut server = Server::new();
    server.up();
    let check = mounts(&server);
    assert_eq!(check["ok"], true, "{check}");
}
