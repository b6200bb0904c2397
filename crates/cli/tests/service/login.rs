//! Logging in to servers, and choosing between them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::server::{Ended, Server, elevo};

/// A user with a configuration directory and without a local server.
struct User<'a> {
    server: &'a Server,
    url: String,
}

impl<'a> User<'a> {
    fn new(server: &'a mut Server) -> Self {
        let told = server.up();
        let url = told["server"].as_str().unwrap().to_owned();
        Self { server, url }
    }

    fn config(&self) -> PathBuf {
        self.server.directory.path().join("config")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = elevo();
        command
            .args(args)
            .env("XDG_CONFIG_HOME", self.config())
            .env("HOME", self.server.directory.path().join("home"))
            .current_dir(self.server.directory.path());
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        Ended::new(self.command(args).output().unwrap())
    }

    fn ok(&self, args: &[&str]) -> String {
        self.run(args).text()
    }

    fn login(&self, name: &str) {
        let key = self.server.data().join("owner.key");
        let mut command = self.command(&["login", &self.url, "--name", name]);
        command.stdin(fs::File::open(key).unwrap());
        Ended::new(command.output().unwrap()).text();
    }
}

#[test]
fn commands_use_the_server_of_the_login() {
    let mut server = Server::new();
    let user = User::new(&mut server);
    user.login("prod");
    let file = user.config().join("elevo/contexts.json");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);

    user.ok(&["project", "create", "site"]);
    let who: Value = serde_json::from_str(&user.ok(&["whoami", "--json"])).unwrap();
    assert_eq!(who["server"], user.url.as_str());
    assert_eq!(who["context"], "prod");
    assert_eq!(who["key_valid"], true);

    let listed = user.ok(&["context", "ls"]);
    assert!(listed.contains("* prod"), "{listed}");
    let shown = user.ok(&["context", "show"]);
    assert!(!shown.contains("elv_"), "{shown}");

    user.ok(&["context", "use", "local"]);
    let gone = user.run(&["project", "ls", "--json", "--data", "absent"]);
    assert_eq!(gone.name(), "server_not_running");
    assert!(
        user.ok(&["project", "ls", "--context", "prod"])
            .contains("site")
    );

    user.ok(&["logout", "prod"]);
    assert!(!fs::read_to_string(&file).unwrap().contains("elv_"));
    let unknown = user.run(&["project", "ls", "--context", "prod", "--json"]);
    assert_eq!(
        (unknown.code, unknown.name().as_str()),
        (3, "context_not_found")
    );
}

#[test]
fn a_key_that_the_server_rejects_is_not_stored() {
    let mut server = Server::new();
    let user = User::new(&mut server);
    let wrong = user.server.directory.path().join("wrong");
    fs::write(&wrong, format!("elv_{}\n", "A".repeat(43))).unwrap();
    let wrong = wrong.to_str().unwrap();
    let refused = user.run(&["login", &user.url, "--key-file", wrong, "--json"]);
    assert_eq!((refused.code, refused.name().as_str()), (1, "unauthorized"));
    let empty = user.run(&["login", &user.url, "--json"]);
    assert_eq!((empty.code, empty.name().as_str()), (2, "key_missing"));
    assert!(!user.config().exists());
}

#[test]
fn options_come_before_variables_and_variables_before_the_context() {
    let mut server = Server::new();
    let user = User::new(&mut server);
    user.login("prod");
    let nowhere = "http://127.0.0.1:9";
    let asked = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = user.command(args);
        command.arg("--json").envs(variables.iter().copied());
        Ended::new(command.output().unwrap())
    };
    let by_variable = asked(&["project", "ls"], &[("ELEVO_SERVER", nowhere)]);
    assert_eq!(by_variable.name(), "key_missing");
    let by_option = asked(
        &["project", "ls", "--context", "prod"],
        &[("ELEVO_SERVER", nowhere), ("ELEVO_API_KEY", "wrong")],
    );
    assert_eq!(by_option.code, 0, "{}", by_option.stderr);
    let key = asked(&["project", "ls"], &[("ELEVO_API_KEY", "wrong")]);
    assert_eq!(key.name(), "unauthorized");
    let data = user.server.data();
    let data = data.to_str().unwrap();
    let local = asked(&["whoami"], &[("ELEVO_DATA", data)]);
    let local: Value = serde_json::from_slice(&local.stdout).unwrap();
    assert_eq!(local["context"], "local");
    let missing = asked(&["project", "ls"], &[("ELEVO_CONTEXT", "other")]);
    assert_eq!(missing.name(), "context_not_found");
}
