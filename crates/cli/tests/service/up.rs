//! Starting and finding the server, and commands without a server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Ended, Server, elevo};

#[test]
fn one_command_starts_all_of_it_and_the_others_find_it() {
    let mut server = Server::new();
    let told = server.up();
    let mode = |name: &str| {
        let meta = fs::metadata(server.data().join(name)).unwrap();
        meta.permissions().mode() & 0o777
    };
    assert_eq!(mode("owner.key"), 0o600);
    assert_eq!(mode("server.log"), 0o600);
    let listed = server.run(["sandbox", "ls"]);
    assert!(
        listed.stderr.contains("there are no sandboxes"),
        "{}",
        listed.stderr
    );
    assert_eq!(listed.text(), "");
    let url = told["server"].as_str().unwrap();
    let key = told["key_file"].as_str().unwrap();
    let asked = elevo()
        .args(["template", "ls", "--server", url, "--key-file", key])
        .output();
    Ended::new(asked.unwrap()).text();

    let doctor = server.ok(["doctor", "--json"]);
    let doctor: Value = serde_json::from_str(&doctor).unwrap();
    assert_eq!(doctor["server"]["ready"], true, "{doctor}");

    let second = Ended::new(server.up_command().output().unwrap());
    assert_eq!((second.code, second.name().as_str()), (4, "server_running"));

    assert!(server.end(Signal::INT).success());
    assert!(!server.data().join("server.json").exists());
    let gone = server.run(["sandbox", "ls", "--json"]);
    assert_eq!((gone.code, gone.name().as_str()), (3, "server_not_running"));

    let before = fs::read(server.data().join("owner.key")).unwrap();
    server.up();
    server.ok(["key", "ls"]);
    assert_eq!(fs::read(server.data().join("owner.key")).unwrap(), before);
}

#[test]
fn leftovers_of_a_killed_server_are_ignored_and_an_invalid_key_is_replaced() {
    let mut server = Server::new();
    server.up();
    server.end(Signal::KILL);
    assert!(server.data().join("server.json").exists());
    let gone = server.run(["sandbox", "ls", "--json"]);
    assert_eq!(gone.name(), "server_not_running");
    let key = server.data().join("owner.key");
    fs::write(&key, format!("elv_{}\n", "A".repeat(43))).unwrap();
    server.up();
    server.ok(["sandbox", "ls"]);
}

#[test]
fn without_an_engine_projects_work_and_a_sandbox_says_what_is_missing() {
    let mut server = Server::new();
    let mut command = server.up_command();
    command.args(["--docker-host", "unix:///nowhere/docker.sock"]);
    server.up_by(command);
    server.ok(["project", "create", "site"]);
    assert!(server.ok(["project", "ls"]).contains("site"));
    let refused = server.run(["sandbox", "create", "base", "--json"]);
    assert_eq!(refused.name(), "runtime_unavailable", "{}", refused.stderr);
    assert!(
        refused.stderr.contains("container engine"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_owners_key_goes_to_no_other_server() {
    let mut server = Server::new();
    server.up();
    // Nothing listens at this address. The error shows that the command found
    // no key for it.
    let asked = server.run(["sandbox", "ls", "--json", "--server", "http://127.0.0.1:9"]);
    assert_eq!((asked.code, asked.name().as_str()), (2, "key_missing"));
    let mut command = server.command(["sandbox", "ls", "--json", "--server", "http://127.0.0.1:9"]);
    let asked = Ended::new(command.env("ELEVO_API_KEY", "some").output().unwrap());
    assert_eq!(
        (asked.code, asked.name().as_str()),
        (5, "server_unreachable")
    );
    let mut command = server.command(["sandbox", "ls", "--json"]);
    let asked = Ended::new(command.env("ELEVO_API_KEY", "wrong").output().unwrap());
    assert_eq!((asked.code, asked.name().as_str()), (1, "unauthorized"));
}

#[test]
fn keys_and_agents_do_what_they_may_and_no_more() {
    let mut server = Server::new();
    server.up();
    let agent = server.ok(["agent", "create", "reviewer"]);
    assert!(server.ok(["agent", "ls"]).contains("reviewer"));
    let secret = server.ok([
        "key",
        "create",
        "looks",
        "--scope",
        "sandboxes:read",
        "--agent",
        agent.trim(),
    ]);
    let with_key = |args: &[&str]| {
        let mut command = server.command(args.iter().copied());
        Ended::new(
            command
                .env("ELEVO_API_KEY", secret.trim())
                .output()
                .unwrap(),
        )
    };
    with_key(&["sandbox", "ls"]).text();
    let refused = with_key(&["key", "ls", "--json"]);
    assert_eq!((refused.code, refused.name().as_str()), (1, "forbidden"));
    let listed = server.ok(["key", "ls", "--json"]);
    let keys = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let made = keys.into_iter().find(|key| key["name"] == "looks").unwrap();
    server.ok(["key", "revoke", made["id"].as_str().unwrap()]);
    assert_eq!(
        with_key(&["sandbox", "ls", "--json"]).name(),
        "unauthorized"
    );
}

#[test]
fn settings_and_ports_that_cannot_be_used_are_named() {
    let mut server = Server::new();
    let mut command = server.up_command();
    command.env("API_HOST", "0.0.0.0").env("MAX_PIDS", "lots");
    let ended = Ended::new(command.output().unwrap());
    assert_eq!((ended.code, ended.name().as_str()), (2, "settings_invalid"));
    assert!(
        ended.stderr.contains("MAX_PIDS: `lots`"),
        "{}",
        ended.stderr
    );

    let told = server.up();
    let port = told["server"].as_str().unwrap().rsplit(':').next().unwrap();
    let other = Server::new();
    let ended = Ended::new(other.up_command_at(port).output().unwrap());
    assert_eq!((ended.code, ended.name().as_str()), (4, "port_taken"));
}
