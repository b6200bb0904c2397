//! Projects, their workspaces, merges and reviews.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::server::{Ended, Server};

/// A server with the project `site`, which contains a page.
fn with_site() -> Server {
    let mut server = Server::new();
    server.up();
    let id = server.ok(["project", "create", "site", "--description", "words"]);
    assert!(id.starts_with("prj-"), "{id}");
    let workspace = Workspace::of(&server);
    workspace.write("page", "one\ntwo\nthree\nfour\nfive\n");
    workspace.write("other", "text\n");
    let merged = server.ok(["ws", "merge", &workspace.id, "-m", "a page"]);
    assert!(merged.contains("A  page"), "{merged}");
    server
}

/// A workspace of `site`.
struct Workspace {
    id: String,
    path: PathBuf,
}

impl Workspace {
    fn of(server: &Server) -> Self {
        let made = server.ok(["ws", "create", "--project", "site", "--json"]);
        let made: Value = serde_json::from_str(&made).unwrap();
        Self {
            id: made["id"].as_str().unwrap().to_owned(),
            path: made["path"].as_str().unwrap().into(),
        }
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path.join(path), text).unwrap();
    }
}

fn lines(text: &str) -> Vec<Value> {
    let values = text.lines().map(serde_json::from_str::<Value>);
    values.collect::<Result<_, _>>().unwrap()
}

/// Changes the same line in two workspaces, so that the second change is held.
/// Returns the second workspace and the id of the review.
fn conflict(server: &Server) -> (Workspace, String) {
    let (one, two) = (Workspace::of(server), Workspace::of(server));
    one.write("page", "one\n2\nthree\nfour\nfive\n");
    two.write("page", "one\nzwei\nthree\nfour\nfive!\n");
    two.write("new", "lands\n");
    server.ok(["ws", "merge", &one.id]);
    let held = server.run(["ws", "merge", &two.id, "-m", "in German"]);
    assert_eq!(held.code, 8, "{}", held.stderr);
    let text = String::from_utf8(held.stdout.clone()).unwrap();
    assert!(text.contains("A  new"), "{text}");
    assert!(text.contains("Held for review: 1"), "{text}");
    let words: Vec<_> = text.split_whitespace().collect();
    let review = words.iter().find(|word| word.starts_with("rev-")).unwrap();
    assert!(
        held.stderr.contains(&format!("elevo review show {review}")),
        "{}",
        held.stderr
    );
    (two, (*review).to_owned())
}

#[test]
fn a_project_is_made_looked_at_renamed_and_removed() {
    let server = with_site();
    let listed = server.ok(["project", "ls"]);
    assert!(listed.contains("site") && listed.contains("words"));
    let shown = server.ok(["project", "show", "site", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["step"], 1);
    let head = shown["head"].as_str().unwrap();
    assert!(server.ok(["project", "show", "site"]).contains(head));

    let log = server.ok(["project", "log", "site", "--stat"]);
    assert!(log.contains("a page") && log.contains("A  page"), "{log}");
    let text = "one\ntwo\nthree\nfour\nfive\n";
    assert_eq!(server.ok(["project", "cat", "site:page"]), text);
    for at in ["head", "HEAD", "1", head, &head[..12]] {
        let target = format!("site@{at}:page");
        assert_eq!(server.ok(["project", "cat", &target]), text, "{at}");
    }
    let none = server.run(["project", "cat", "site@9:page", "--json"]);
    assert_eq!((none.code, none.name().as_str()), (3, "snapshot_not_found"));
    assert_eq!(server.ok(["project", "files", "site"]), "other\npage\n");
    assert_eq!(
        server.ok(["project", "diff", "site"]),
        "A\tother\nA\tpage\n"
    );
    let patch = server.ok(["project", "diff", "site", "-p", "0..1"]);
    assert!(patch.contains("+++ b/page"), "{patch}");
    let stat = server.ok(["project", "diff", "site", "--stat"]);
    assert!(stat.contains("2 paths, +6 -0 lines"), "{stat}");
    let differ = ["project", "diff", "site", "0", "--exit-code"];
    assert_eq!(server.run(differ).code, 7);
    let blame = server.ok(["project", "blame", "site", "page"]);
    assert!(blame.contains("2 │ two"), "{blame}");
    let history = server.ok(["project", "log", "site", "--json", "--", "page"]);
    assert_eq!(lines(&history)[0]["kind"], "added");

    server.ok(["project", "rename", "site", "handbook"]);
    let gone = server.run(["project", "show", "site", "--json"]);
    assert_eq!((gone.code, gone.name().as_str()), (3, "project_not_found"));
    server.ok(["project", "rm", "--yes", "handbook"]);
    assert_eq!(server.ok(["project", "ls"]), "");
}

#[test]
fn a_conflict_is_shown_side_by_side_and_decided() {
    let server = with_site();
    let (_, review) = conflict(&server);
    let listed = server.ok(["review", "ls", "-l", "--project", "site"]);
    assert!(
        listed.contains(&review) && listed.contains("site"),
        "{listed}"
    );
    let narrow = server.ok(["review", "show", &review]);
    assert!(narrow.contains("the project's side: line 2\n"), "{narrow}");
    assert!(narrow.contains("    2 + zwei\n"), "{narrow}");
    let wide = server.ok(["review", "show", &review, "--width", "100"]);
    let row = wide.lines().find(|line| line.contains("zwei")).unwrap();
    assert!(
        row.contains("    2 + 2 ") && row.contains(" │     2 + zwei"),
        "{wide}"
    );

    server.ok(["review", "accept", &review, "--take", "workspace"]);
    let page = server.ok(["project", "cat", "site:page"]);
    assert_eq!(page, "one\nzwei\nthree\nfour\nfive!\n");
    let again = server.run(["review", "accept", &review, "--take", "project", "--json"]);
    assert_eq!((again.code, again.name().as_str()), (4, "review_closed"));
    assert_eq!(server.ok(["review", "ls"]), "");
    let all = server.ok(["review", "ls", "--all", "--json"]);
    assert_eq!(lines(&all)[0]["state"], "resolved");
}

/// Runs `review accept --edit` with a shell command as the editor.
fn edit(server: &Server, review: &str, editor: &str) -> Ended {
    let mut command = server.command(["review", "accept", review, "--edit", "--json"]);
    command
        .env("EDITOR", editor)
        .env("TMPDIR", server.directory.path());
    Ended::new(command.output().unwrap())
}

#[test]
fn a_conflict_is_edited_and_no_marker_is_sent() {
    let server = with_site();
    let (_, review) = conflict(&server);
    let marked = edit(&server, &review, "true");
    assert_eq!((marked.code, marked.name().as_str()), (1, "not_sent"));
    let error: Value = serde_json::from_str(&marked.stderr).unwrap();
    let kept = error["error"]["details"]["path"].as_str().unwrap();
    let text = fs::read_to_string(kept).unwrap();
    assert!(text.starts_with("one\n<<<<<<< the project\n2\n||||||| base\ntwo\n"));
    let with_file = server.run(["review", "accept", &review, "--file", kept, "--json"]);
    assert_eq!(with_file.name(), "not_sent");
    let failed = edit(&server, &review, "false");
    assert_eq!(failed.name(), "editor_failed");
    let editor = "sed -i -e '/^[<|>=]\\{7\\}/d' -e '/^two$/d'";
    let sent = edit(&server, &review, editor);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let page = server.ok(["project", "cat", "site:page"]);
    assert_eq!(page, "one\n2\nzwei\nthree\nfour\nfive!\n");
}

#[test]
fn a_dry_run_changes_nothing_and_an_atomic_merge_is_all_or_nothing() {
    let server = with_site();
    let (two, review) = conflict(&server);
    server.ok(["review", "reject", &review, "-m", "not so"]);
    two.write("more", "text\n");
    let dry = server.run(["ws", "merge", &two.id, "--dry-run", "--json"]);
    let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!((&dry["dryRun"], &dry["step"]), (&true.into(), &Value::Null));
    let (one, other) = (Workspace::of(&server), Workspace::of(&server));
    one.write("other", "first\n");
    other.write("other", "second\n");
    other.write("beside", "text\n");
    // The current directory determines the workspace.
    let mut command = server.command(["ws", "merge"]);
    let merged = Ended::new(command.current_dir(&one.path).output().unwrap());
    assert!(merged.text().contains("M  other"));
    let atomic = server.run(["ws", "merge", &other.id, "--atomic", "--json"]);
    assert_eq!((atomic.code, atomic.name().as_str()), (4, "merge_conflict"));
    let missing = server.run(["project", "cat", "site:beside", "--json"]);
    assert_eq!(missing.name(), "path_not_found");

    let fresh = Workspace::of(&server);
    server.ok(["ws", "pull", &fresh.id]);
    fresh.write("last", "text\n");
    server.ok(["ws", "merge", "--rm", &fresh.id, "-m", "done"]);
    assert!(!fresh.path.exists());
    let left = server.ok(["ws", "ls", "--project", "site", "--json"]);
    assert!(!left.contains(&fresh.id) && left.contains(&other.id));
    server.ok(["ws", "rm", "--discard", "--project", "site", &other.id]);
    let outside = server.run(["ws", "merge", "--json"]);
    assert_eq!(outside.name(), "workspace_not_found");
}

#[test]
fn a_policy_is_set_from_a_file_or_an_editor_and_what_it_forbids_is_refused() {
    let server = with_site();
    let agent = server.ok(["agent", "create", "writer"]);
    let agent = agent.trim();
    server.write(
        "policy.toml",
        b"[[rules]]\npattern = 'page'\naccess = 'r'\n",
    );
    server.ok(["project", "policy", "set", "site", "policy.toml"]);
    let shown = server.ok(["project", "policy", "show", "site"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["rules"][0]["access"], "r");
    let make = [
        "ws",
        "create",
        "--project",
        "site",
        "--agent",
        agent,
        "--json",
    ];
    let made: Value = serde_json::from_str(&server.ok(make)).unwrap();
    let path = PathBuf::from(made["path"].as_str().unwrap());
    fs::write(path.join("page"), "mine\n").unwrap();
    let refused = server.run(["ws", "merge", made["id"].as_str().unwrap()]);
    let text = String::from_utf8(refused.stdout).unwrap();
    assert_eq!(refused.code, 8, "{text}");
    assert!(
        text.contains("Refused: 1") && text.contains("!  page"),
        "{text}"
    );

    let mut command = server.command(["project", "policy", "edit", "site"]);
    command.env("EDITOR", "sed -i 's/\"r\"/\"rw\"/'");
    Ended::new(command.output().unwrap()).text();
    let shown = server.ok(["project", "policy", "show", "site", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["policy"]["rules"][0]["access"], "rw");
    server.write("bad.json", b"{\"rulez\": []}");
    let bad = server.run(["project", "policy", "set", "site", "bad.json", "--json"]);
    assert_eq!((bad.code, bad.name().as_str()), (2, "policy_invalid"));
}

#[test]
fn files_come_in_by_patch_tar_and_directory_and_go_out() {
    let server = with_site();
    let patch = "--- a/page\n+++ b/page\n@@ -1,2 +1,2 @@\n-one\n+eins\n two\n";
    let patch = format!("diff --git a/page b/page\n{patch}");
    let applied = server.feed(["project", "apply", "site", "-"], patch.as_bytes());
    assert!(applied.text().contains("M  page"));
    let again = server.feed(
        ["project", "apply", "site", "-", "--json"],
        patch.as_bytes(),
    );
    assert_eq!((again.code, again.name().as_str()), (2, "patch_refused"));
    server.ok(["project", "revert", "site", "2"]);
    assert!(
        server
            .ok(["project", "cat", "site:page"])
            .starts_with("one\n")
    );

    server.write("in/docs/a", b"a\n");
    let import = ["project", "import", "site", "in/docs", "--path", "docs"];
    server.ok(import);
    assert_eq!(server.ok(["project", "cat", "site:docs/a"]), "a\n");
    let tar = server.run(["project", "export", "site", "docs"]).stdout;
    assert!(!tar.is_empty());
    server.ok(["project", "create", "copy"]);
    let fed = server.feed(["project", "import", "copy", "-"], &tar);
    fed.text();
    let files = server.ok(["project", "files", "copy", "-r"]);
    assert!(files.contains("a\n"), "{files}");
    let nothing = server.feed(["project", "import", "site", "-", "--json"], b"");
    assert_eq!((nothing.code, nothing.name().as_str()), (2, "not_a_tar"));
    let files = server.ok(["project", "files", "site", "-r"]);
    assert_eq!(files, "docs/\ndocs/a\nother\npage\n");
}

#[test]
fn the_commands_about_projects_in_the_manual_run() {
    let mut server = Server::new();
    server.up();
    server.write("site/page.md", b"text\n");
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let manual = fs::read_to_string(manual).unwrap();
    let (_, projects) = manual.split_once("\n## Projects\n").unwrap();
    let (_, block) = projects.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().filter(|line| !line.starts_with("elevo up"));
    let script = lines.collect::<Vec<_>>().join("\n");
    assert!(script.lines().count() > 3, "{script}");
    let bin = Path::new(crate::server::ELEVO.as_str()).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-c", &script])
        .current_dir(server.directory.path())
        .env_clear()
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("HOME", server.directory.path())
        .env("ELEVO_DATA", server.data());
    let text = Ended::new(bash.output().unwrap()).text();
    assert!(text.contains("+a line"), "{text}");
}

#[test]
fn versions_are_tagged_and_retention_is_chosen() {
    let server = with_site();
    assert_eq!(server.ok(["project", "retention", "site"]).trim(), "all");
    let chosen = server.ok(["project", "retention", "site", "last:5", "--json"]);
    assert_eq!(
        lines(&chosen),
        [serde_json::json!({"keep": "last", "count": 5})]
    );
    assert!(server.ok(["project", "show", "site"]).contains("last:5"));
    assert_eq!(
        server.run(["project", "retention", "site", "last:0"]).code,
        2
    );

    server.ok(["project", "tag", "site", "v1", "1", "-m", "as shown"]);
    let page = server.ok(["project", "cat", "site@v1:page"]);
    assert!(page.starts_with("one"), "{page}");
    let listed = server.ok(["project", "tag", "site", "--json"]);
    let listed = lines(&listed);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["step"]),
        (&"v1".into(), &1.into())
    );
    let taken = server.run(["project", "tag", "site", "v1", "head"]);
    assert_eq!(taken.code, 4, "{}", taken.stderr);
    server.ok(["project", "tag", "site", "v1", "head", "--move"]);
    server.ok(["project", "tag", "site", "v1", "--delete"]);
    let gone = server.run(["project", "cat", "site@v1:page"]);
    assert_eq!(gone.code, 3, "{}", gone.stderr);
}

/// Reads a file as a user of the machine; `None` if that is denied.
fn read_as(uid: u32, file: &Path) -> Option<String> {
    let mut cat = Command::new("cat");
    cat.arg(file).current_dir("/").uid(uid).gid(uid);
    let output = cat.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(text)
}

#[test]
fn a_workspace_with_an_owner_is_for_that_user_of_the_machine() {
    const ADA: u32 = 1000;
    const BOB: u32 = 1001;
    let server = with_site();
    // Only the modes that the server sets may keep users out.
    fs::set_permissions(server.directory.path(), Permissions::from_mode(0o755)).unwrap();
    let create = ["ws", "create", "--project", "site", "--owner"];
    let made = server.ok(create.into_iter().chain(["1000"]));
    let page = Path::new(made.trim_end()).join("page");
    assert!(read_as(ADA, &page).unwrap().starts_with("one\n"));
    assert_eq!(read_as(BOB, &page), None);
    let unknown = server.run(create.into_iter().chain(["no-such-user", "--json"]));
    assert_eq!(
        (unknown.code, unknown.name().as_str()),
        (2, "invalid_request")
    );
    let alone = server.run(["ws", "create", "--owner", "1000"]);
    assert_eq!(alone.code, 2, "{}", alone.stderr);
    assert!(alone.stderr.contains("--project"), "{}", alone.stderr);
}
