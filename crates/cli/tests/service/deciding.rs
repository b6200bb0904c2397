//! Reviews: hints that fit the key, and the record of a decision.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::server::{Ended, Server};

/// A server with the project `site`, and an agent with its own key.
struct Site {
    server: Server,
    agent: String,
    key: String,
}

impl Site {
    fn new() -> Self {
        let mut server = Server::new();
        server.up();
        server.ok(["project", "create", "site"]);
        let agent = server.ok(["agent", "create", "bob"]).trim().to_owned();
        let made = server.ok(["key", "create", "bob", "--agent", &agent]);
        let key = made.trim().to_owned();
        Self { server, agent, key }
    }

    fn workspace(&self, agent: Option<&str>) -> (String, PathBuf) {
        let mut args = vec!["ws", "create", "--project", "site", "--json"];
        args.extend(agent.iter().flat_map(|agent| ["--agent", agent]));
        let made: Value = serde_json::from_str(&self.server.ok(args)).unwrap();
        let id = made["id"].as_str().unwrap().to_owned();
        (id, made["path"].as_str().unwrap().into())
    }

    /// Runs a command with the agent's key.
    fn as_bob(&self, args: &[&str]) -> Ended {
        let mut command = self.server.command(args.iter().copied());
        Ended::new(command.env("ELEVO_API_KEY", &self.key).output().unwrap())
    }

    /// Creates a conflict in a change of the agent. Returns the output of the
    /// merge and the id of the review.
    fn held(&self) -> (Ended, String) {
        let (first, at_first) = self.workspace(None);
        fs::write(at_first.join("page"), "one\ntwo\nthree\n").unwrap();
        self.server.ok(["ws", "merge", &first]);
        let ((ours, at_ours), (theirs, at_theirs)) =
            (self.workspace(None), self.workspace(Some(&self.agent)));
        fs::write(at_ours.join("page"), "one\n2\nthree\n").unwrap();
        fs::write(at_theirs.join("page"), "one\nzwei\nthree\n").unwrap();
        self.server.ok(["ws", "merge", &ours]);
        let held = self.as_bob(&["ws", "merge", &theirs, "-m", "in German"]);
        assert_eq!(held.code, 8, "{}", held.stderr);
        let reviews = self.server.ok(["review", "ls", "--json"]);
        let review: Value = serde_json::from_str(reviews.trim()).unwrap();
        (held, review["id"].as_str().unwrap().to_owned())
    }
}

#[test]
fn hints_fit_the_key_and_say_what_is_suggested() {
    let site = Site::new();
    let (held, review) = site.held();
    let said = String::from_utf8(held.stdout).unwrap();
    let suggested = "the workspace's lines (both sides changed the same lines)";
    assert!(said.contains(&format!("suggested: {suggested}")), "{said}");
    assert!(held.stderr.contains("elevo review show"), "{}", held.stderr);
    assert!(!held.stderr.contains("review accept"), "{}", held.stderr);
    assert!(held.stderr.contains("elevo ws pull"), "{}", held.stderr);

    let shown = site.as_bob(&["review", "show", &review]);
    assert!(!shown.stderr.contains("review accept"), "{}", shown.stderr);
    let shown = shown.text();
    assert!(shown.contains(suggested), "{shown}");
    let shown = site.server.run(["review", "show", &review]);
    let next = format!("elevo review accept {review}");
    assert!(shown.stderr.contains(&next), "{}", shown.stderr);
}

#[test]
fn a_decision_is_on_record() {
    let site = Site::new();
    let (_, review) = site.held();
    let resolve = [
        "review",
        "accept",
        &review,
        "--take",
        "suggested",
        "-m",
        "as agreed",
    ];
    site.server.ok(resolve);
    let shown = site.server.ok(["review", "show", &review]);
    let line = |name: &str| {
        let found = shown.lines().find(|line| line.starts_with(name));
        found.unwrap_or_default().to_owned()
    };
    assert!(line("decided by").contains("owner (key-"), "{shown}");
    assert!(line("taken").contains("the workspace's lines"), "{shown}");
    assert!(line("because").ends_with("as agreed"), "{shown}");
    assert!(line("message").ends_with("in German"), "{shown}");

    let log = site.server.ok(["project", "log", "site", "-n", "1"]);
    assert!(log.contains("as agreed"), "{log}");
    assert!(log.contains(", bob, resolved by owner"), "{log}");
    assert!(log.contains("resolved by owner"), "{log}");
    let log = site
        .server
        .ok(["project", "log", "site", "-n", "1", "--json"]);
    let step: Value = serde_json::from_str(log.trim()).unwrap();
    assert_eq!(step["agent"], site.agent.as_str(), "{step}");
    assert_eq!(step["decided"]["review"], review.as_str(), "{step}");
    assert_eq!(step["decided"]["take"], "suggested", "{step}");
}
