//! Pins the tables and messages of the commands on a server, without the parts
//! that differ from run to run. `INSTA_UPDATE=always` accepts a change.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::server::{Ended, Server};

/// Columns of a terminal that a table must fit into.
const COLUMNS: usize = 80;

/// A server with the agents ada and bob, and a project with a conflict between
/// them.
struct Site {
    server: Server,
    review: String,
}

impl Site {
    fn new() -> Self {
        let mut server = Server::new();
        server.up();
        server.write("site/page", b"one\ntwo\nthree\n");
        server.write("site/docs/a", b"a\n");
        server.ok(["project", "create", "site", "--from", "site"]);
        for agent in ["ada", "bob"] {
            server.ok(["agent", "create", agent]);
        }
        server.ok(["key", "create", "--agent", "bob", "-o", "bob.key"]);
        let ada = workspace(&server, "ada");
        let bob = workspace(&server, "bob");
        fs::write(ada.join("page"), "one\n2\nthree\n").unwrap();
        fs::write(bob.join("page"), "one\nzwei\nthree\n").unwrap();
        fs::write(bob.join("docs/b"), "b\n").unwrap();
        server.ok(["ws", "merge", "ada-1", "-m", "digits"]);
        let site = Self {
            server,
            review: String::new(),
        };
        let held = site.transcript(&["ws", "merge", "bob-1", "-m", "in German"]);
        insta::assert_snapshot!("merge", held);
        let reviews = site.server.ok(["review", "ls", "--json"]);
        let review: Value = serde_json::from_str(reviews.trim()).unwrap();
        let review = review["id"].as_str().unwrap().to_owned();
        Self { review, ..site }
    }

    /// Runs a command. Returns its output, its notes and its exit code.
    fn transcript(&self, words: &[&str]) -> String {
        let ended = self.server.run(words.iter().copied());
        let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
        let (command, code) = (words.join(" "), ended.code);
        let text = format!("$ elevo {command}\n{stdout}{}[{code}]\n", ended.stderr);
        redacted(&text).replace(&*self.server.directory.path().to_string_lossy(), "ROOT")
    }

    fn transcripts(&self, commands: &[&str]) -> String {
        let words = commands.iter().map(|it| it.split(' ').collect::<Vec<_>>());
        let all: Vec<_> = words.map(|words| self.transcript(&words)).collect();
        all.join("\n")
    }
}

/// Creates a workspace for an agent. Returns its directory.
fn workspace(server: &Server, agent: &str) -> PathBuf {
    let name = format!("{agent}-1");
    let create = ["ws", "create", "--project", "site", "--agent", agent];
    let made = server.ok(create.into_iter().chain([name.as_str()]));
    made.trim_end().into()
}

/// Replaces ids, times and the width of columns, which depends on the times.
fn redacted(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut words: Vec<String> = Vec::new();
        for word in line.trim_end().split(' ') {
            let is_gap = word.is_empty() && words.last().is_some_and(String::is_empty);
            if !is_gap {
                words.push(redacted_word(word));
            }
        }
        without_times(words).join(" ")
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Replaces `12 seconds ago` and `in 7 days` by words.
fn without_times(words: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        let units = ["second", "minute", "hour", "day"];
        let unit = word.trim_end_matches([',', ')', ':']).trim_end_matches('s');
        let number = kept.last().map(|it| it.trim_start_matches('('));
        let is_number = number.is_some_and(|it| it.parse::<u64>().is_ok());
        match units.contains(&unit) && is_number {
            true => {
                let last = kept.pop().unwrap_or_default();
                let open = if last.starts_with('(') { "(" } else { "" };
                let rest = word.trim_start_matches(unit).trim_start_matches('s');
                kept.push(format!("{open}TIME{rest}"));
            }
            false => kept.push(word),
        }
    }
    kept
}

fn redacted_word(word: &str) -> String {
    let letters = |it: &str| it.bytes().all(|byte| byte.is_ascii_alphanumeric());
    for prefix in ["agt-", "key-", "prj-", "rev-", "req-", "wh-", "ws-"] {
        let Some(at) = word.find(prefix) else {
            continue;
        };
        let rest = &word[at + prefix.len()..];
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric());
        let (id, after) = rest.split_at(end.unwrap_or(rest.len()));
        if id.len() >= 8 && letters(id) {
            return format!("{}{prefix}{}{after}", &word[..at], "x".repeat(id.len()));
        }
    }
    let plain = word.trim_end_matches(',');
    let is_hash = [12, 64].contains(&plain.len()) && plain.bytes().all(|it| it.is_ascii_hexdigit());
    let is_date = plain.len() == 5 && plain.as_bytes()[2] == b'-';
    let is_time = plain.len() == 5 && plain.as_bytes()[2] == b':';
    let is_stamp = plain.len() > 18 && plain.contains('T') && plain.ends_with('Z');
    match word {
        _ if is_hash => word.replace(plain, "SNAPSHOT"),
        _ if is_date => "DATE".into(),
        _ if is_time => "HH:MM".into(),
        _ if is_stamp => "TIMESTAMP".into(),
        word => word.to_owned(),
    }
}

#[test]
fn the_tables_of_a_server_are_printed_as_before() {
    let site = Site::new();
    site.server
        .ok(["webhook", "create", "https://example.com/hook"]);
    let lists = [
        "agent ls",
        "key ls",
        "webhook ls",
        "template ls",
        "project ls",
        "project status site",
        "project log site",
        "project log site -- docs",
        "project blame site page",
        "project files site -r -l",
        "project diff site 1..head",
        "ws ls --project site",
        "review ls",
        "events --project site",
        "ps",
        "sandbox ls",
    ];
    for list in lists {
        let text = site.server.ok(list.split(' '));
        let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "{list}");
    }
    insta::assert_snapshot!("tables", site.transcripts(&lists));
}

#[test]
fn a_review_is_shown_and_decided_as_before() {
    let site = Site::new();
    let short = &site.review[..12];
    let show = format!("review show {short}");
    let accept = format!("review accept {short} --take workspace -m agreed");
    let commands = [
        "ws pull bob-1 --dry-run",
        &show,
        &accept,
        &show,
        "project log site -n 1",
        "ws merge --rm ada-1",
        "project policy check site bob page",
        "project show site",
    ];
    insta::assert_snapshot!("review", site.transcripts(&commands));
}

#[test]
fn errors_of_a_server_name_commands_as_before() {
    let site = Site::new();
    site.server.ok(["project", "create", "other"]);
    site.server
        .ok(["ws", "create", "--project", "other", "ada-1"]);
    let commands = [
        "agent create ada",
        "key create ci --agent nope",
        "key revoke nope",
        "ws merge nope",
        "ws merge ada-1",
        "review accept rev-none --take project",
        "review accept rev-none",
        "project show nope",
        "project cat site",
        "project cat site:nope",
        "project cat site@99:page",
        "project cat site@head~99:page",
        "project files site:page",
        "project policy check site nope page",
        "events --project nope",
        "events --sandbox nope",
        "template show nope",
        "webhook rm nope",
        "sandbox show nope",
        "project import site nope",
    ];
    insta::assert_snapshot!("errors", site.transcripts(&commands));
}

#[test]
fn a_key_in_a_file_is_for_its_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let file = site.server.directory.path().join("bob.key");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let with = ["project", "ls", "--key-file", file.to_str().unwrap()];
    assert!(site.server.ok(with).contains("site"));
    let again = site
        .server
        .run(["key", "create", "ci", "-o", "bob.key", "--json"]);
    assert_eq!(again.name(), "io", "{}", again.stderr);
    let keys = site.server.ok(["key", "ls"]);
    assert!(!keys.contains(" ci "), "{keys}");
    site.server.ok(["key", "revoke", "bob"]);
    let revoked = Ended::new(site.server.command(with).output().unwrap());
    assert_eq!(revoked.code, 1, "{}", revoked.stderr);
}
