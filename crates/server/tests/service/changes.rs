//! Changing and reading the files of projects without a workspace.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{KEY, Service};

struct Project<'a> {
    service: &'a Service,
    id: String,
}

/// The entries of a tar by path: the kind, whether the entry is executable, and
/// its content or link target.
type Files = BTreeMap<String, (char, bool, Vec<u8>)>;

impl<'a> Project<'a> {
    async fn new(service: &'a Service, policy: Value) -> Self {
        let wish = json!({"name": "p", "policy": policy});
        let made = service.post("/api/v1/projects", wish).await;
        let id = made["id"].as_str().unwrap().to_owned();
        Self { service, id }
    }

    fn at(&self, what: &str) -> String {
        format!("/api/v1/projects/{}/{what}", self.id)
    }

    async fn call_as(&self, key: &str, what: &str, body: Value, status: u16) -> Value {
        let service = self.service;
        service
            .expect_as(key, Method::POST, &self.at(what), Some(body), status)
            .await
    }

    async fn call(&self, what: &str, body: Value, status: u16) -> Value {
        self.call_as(KEY, what, body, status).await
    }

    /// Applies a patch that is rejected; returns the error.
    async fn refused(&self, patch: &str) -> Value {
        let answer = self.call("apply", json!({"patch": patch}), 422).await;
        assert_eq!(answer["error"]["name"], "PATCH_REFUSED", "{patch}");
        answer["error"].clone()
    }

    async fn put(&self, files: &[(&str, &str)]) -> Value {
        let files = files.iter();
        let files = files.map(|(path, content)| json!({"path": path, "content": content}));
        let files: Vec<_> = files.collect();
        self.call("apply", json!({"files": files}), 200).await
    }

    async fn file(&self, path: &str) -> Option<String> {
        let url = self.at("files");
        let request = self.service.request(Method::GET, &url);
        let answer = request.query(&[("path", path)]).send().await.unwrap();
        match answer.status().as_u16() {
            200 => Some(answer.text().await.unwrap()),
            _ => None,
        }
    }

    async fn tar_as(&self, key: &str, query: &[(&str, &str)]) -> Files {
        let url = format!("{}{}", self.service.url, self.at("archive"));
        let request = self.service.http.get(url).bearer_auth(key).query(query);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        unpacked(&answer.bytes().await.unwrap())
    }

    async fn tar(&self) -> Files {
        self.tar_as(KEY, &[]).await
    }

    async fn put_tar(&self, path: &str, tar: Vec<u8>, status: u16) -> Value {
        let request = self.service.request(Method::PUT, &self.at("archive"));
        let request = request.query(&[("path", path)]).body(tar);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status);
        answer.json().await.unwrap()
    }

    async fn log(&self) -> Vec<Value> {
        let log = self.service.get(&self.at("steps?limit=100")).await;
        log["items"].as_array().unwrap().clone()
    }
}

fn unpacked(tar: &[u8]) -> Files {
    let mut files = Files::new();
    for entry in tar::Archive::new(tar).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let header = entry.header().clone();
        let kind = match header.entry_type() {
            kind if kind.is_file() => 'f',
            kind if kind.is_symlink() => 'l',
            kind if kind.is_dir() => 'd',
            // Skips the header with the commit id that `git archive` adds.
            _ => continue,
        };
        if let Some(target) = entry.link_name().unwrap() {
            content = target.to_str().unwrap().into();
        }
        let can_run = kind == 'f' && header.mode().unwrap() & 0o100 != 0;
        let path = entry.path().unwrap().display().to_string();
        let path = path.trim_end_matches('/').to_owned();
        files.insert(path, (kind, can_run, content));
    }
    files
}

fn git(at: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .current_dir(at)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(["-c", "init.defaultBranch=main"])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    output.stdout
}

fn commit(at: &Path, message: &str) {
    git(at, &["add", "-A", "-f"]);
    git(at, &["commit", "-q", "-m", message]);
}

async fn agent(service: &Service, name: &str) -> String {
    let made = service.post("/api/v1/agents", json!({"name": name})).await;
    let scopes = ["projects:read", "projects:write", "files"];
    let wish = json!({"name": name, "agent": made["id"], "scopes": scopes});
    let key = service.post("/api/v1/keys", wish).await;
    key["secret"].as_str().unwrap().to_owned()
}

/// Two states of a repository, with everything that a patch can express.
fn two_states(at: &Path) {
    git(at, &["init", "-q"]);
    fs::create_dir(at.join("d")).unwrap();
    let lines: String = (1..60).map(|number| format!("line {number}\n")).collect();
    fs::write(at.join("changed"), &lines).unwrap();
    fs::write(at.join("d/moved"), &lines).unwrap();
    fs::write(at.join("crlf"), "a\r\nb\r\nc\r\n").unwrap();
    fs::write(at.join("no end"), "last").unwrap();
    fs::write(at.join("run"), "#!/bin/sh\n").unwrap();
    fs::write(at.join("gone"), "gone\n").unwrap();
    fs::write(at.join("empty"), "").unwrap();
    fs::write(at.join("swap1"), "one\n".repeat(30)).unwrap();
    fs::write(at.join("swap2"), "two\n".repeat(30)).unwrap();
    fs::write(at.join("turns"), "file\n").unwrap();
    symlink("changed", at.join("link")).unwrap();
    fs::write(at.join(".gitignore"), "*.log\n").unwrap();
    commit(at, "first");
    let lines = lines
        .replace("line 3\n", "LINE 3\n")
        .replace("line 50\n", "");
    fs::write(at.join("changed"), &lines).unwrap();
    fs::remove_dir_all(at.join("d")).unwrap();
    fs::create_dir(at.join("e")).unwrap();
    fs::write(
        at.join("e/moved \u{e4}"),
        lines.replace("LINE 3\n", "line 3\n"),
    )
    .unwrap();
    fs::write(at.join("crlf"), "a\r\nB\r\nc\r\n").unwrap();
    fs::write(at.join("no end"), "last\nmore").unwrap();
    fs::set_permissions(at.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(at.join("gone")).unwrap();
    fs::remove_file(at.join("empty")).unwrap();
    fs::write(at.join("new empty"), "").unwrap();
    fs::write(at.join("swap2"), "one\n".repeat(30)).unwrap();
    fs::write(at.join("swap1"), "two\n".repeat(30)).unwrap();
    for name in ["turns", "link"] {
        fs::remove_file(at.join(name)).unwrap();
    }
    symlink("crlf", at.join("turns")).unwrap();
    symlink("no end", at.join("link")).unwrap();
    fs::write(at.join("kept.log"), "ignored, and meant\n").unwrap();
    commit(at, "second");
}

#[tokio::test]
async fn a_repository_its_patches_and_its_archive_are_what_git_has() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    two_states(at);
    let states = ["HEAD~1", "HEAD"].map(|state| unpacked(&git(at, &["archive", state])));

    let wish = json!({"git": at, "revision": "HEAD~1", "message": "from git"});
    let first = project.call("import", wish, 200).await;
    assert_eq!(first["steps"], 1, "{first}");
    assert_eq!(project.tar().await, states[0]);

    for options in [
        &["-M"][..],
        &["--no-renames"],
        &["-C", "-B"],
        &["-U0", "-M"],
    ] {
        let mut arguments = vec!["diff", "--full-index"];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(&["HEAD~1", "HEAD"]);
        let patch = String::from_utf8(git(at, &arguments)).unwrap();
        let wish = json!({"patch": patch, "merge": {"message": "by patch"}});
        let applied = project.call("apply", wish, 200).await;
        assert_eq!(applied["conflictCount"], 0, "{applied}");
        assert_eq!(project.tar().await, states[1], "{options:?}");
        // A revert restores the first state.
        let wish = json!({"snapshot": applied["head"]});
        project.call("revert", wish, 200).await;
        assert_eq!(project.tar().await, states[0], "{options:?}");
    }
    let kinds: Vec<_> = project.log().await;
    let kinds: Vec<_> = kinds
        .iter()
        .map(|step| step["kind"].as_str().unwrap())
        .collect();
    assert_eq!(&kinds[6..], ["revert", "apply", "import"]);

    // Exports a directory of an older state, and imports an archive into a
    // directory.
    let at_first = [("snapshot", first["head"].as_str().unwrap()), ("path", "d")];
    let part = project.tar_as(KEY, &at_first).await;
    assert_eq!(part.keys().collect::<Vec<_>>(), ["moved"]);
    let tar = git(at, &["archive", "HEAD"]);
    let imported = project.put_tar("vendor/it", tar.clone(), 200).await;
    assert_eq!(imported["steps"], 1, "{imported}");
    let part = project.tar_as(KEY, &[("path", "vendor/it")]).await;
    assert_eq!(part, states[1]);
    project.put_tar("", tar, 200).await;
    assert_eq!(project.tar().await, states[1]);
    let link = project.tar_as(KEY, &[("path", "turns")]).await;
    assert_eq!(link["turns"], ('l', false, b"crlf".to_vec()));
}

#[tokio::test]
async fn a_history_becomes_the_log() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    project.put(&[("mine", "stays\n")]).await;
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    git(at, &["init", "-q"]);
    for number in 1..=70 {
        fs::write(at.join("count"), format!("{number}\n")).unwrap();
        fs::write(at.join(format!("f{}", number % 7)), format!("{number}\n")).unwrap();
        commit(at, &format!("commit {number}"));
    }
    git(at, &["commit", "-q", "--allow-empty", "-m", "nothing"]);
    git(at, &["gc", "-q"]);
    let wish = json!({"git": at, "history": true, "path": "sub"});
    let send = async || {
        let request = service.request(Method::POST, &project.at("import"));
        let request = request.header("idempotency-key", "once").json(&wish);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json::<Value>().await.unwrap()
    };
    let imported = send().await;
    assert_eq!(imported["steps"], 70, "{imported}");
    assert_eq!(imported["conflictCount"], 0, "{imported}");
    let again = send().await;
    assert_eq!(again["head"], imported["head"]);
    let log = project.log().await;
    assert_eq!(log.len(), 71);
    for (number, step) in (1..=70).rev().zip(&log) {
        let message = step["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("commit {number}\n")),
            "{message}"
        );
        assert!(message.contains("\nAuthor: Ada <ada@example.org>\n"));
        assert_eq!(step["kind"], "import");
    }
    let tar = project.tar_as(KEY, &[("path", "sub")]).await;
    assert_eq!(tar, unpacked(&git(at, &["archive", "HEAD"])));
    assert_eq!(project.file("mine").await.unwrap(), "stays\n");
    let history = service
        .get(&project.at("history?path=sub/count&limit=100"))
        .await;
    assert_eq!(history["items"].as_array().unwrap().len(), 70);
}

#[tokio::test]
async fn a_revert_of_a_path_undoes_the_step_there_and_a_restore_all_since() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    let lines = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let text = |of: &str, to: &str| {
        let lines = lines.map(|line| if line == of { to } else { line });
        lines.join("\n") + "\n"
    };
    project.put(&[("f", &text("", "")), ("g", "g1\n")]).await;
    let files = [("f", &*text("2", "two")), ("g", "g2\n"), ("new/n", "n\n")];
    let second = project.put(&files).await;
    let last = text("2", "two").replace('8', "eight");
    let third = project.put(&[("f", &last)]).await;

    // A revert undoes only the changes of the second step, and only at the
    // given path.
    let undo = |path: &str| json!({"snapshot": second["head"], "path": path});
    project.call("revert", undo("f"), 200).await;
    let undone = text("8", "eight");
    assert_eq!(project.file("f").await.unwrap(), undone);
    assert_eq!(project.file("g").await.unwrap(), "g2\n");
    assert_eq!(project.log().await[0]["message"], "undo step 2 at f");
    project.call("revert", undo("new/n"), 200).await;
    let tree = service.get(&project.at("files/list")).await;
    assert!(!tree.to_string().contains("\"new"), "{tree}");
    let unchanged = json!({"snapshot": third["head"], "path": "g"});
    let error = project.call("revert", unchanged, 404).await;
    let message = error["error"]["message"].as_str().unwrap();
    assert_eq!(message, "step 3 did not change `g`");

    // A restore undoes everything that has changed at the path since.
    let restore = json!({"snapshot": third["head"], "path": "f"});
    project.call("restore", restore, 200).await;
    assert_eq!(project.file("f").await.unwrap(), last);
    let log = project.log().await;
    assert_eq!(log[0]["kind"], "restore");
    assert_eq!(log[0]["message"], "restore f from step 3");
    project.call("restore", json!({"path": "f"}), 400).await;
}

#[tokio::test]
async fn a_change_that_is_sent_twice_lands_once() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    let first = project.put(&[("a", "1\n2\n3\n")]).await;
    let patch = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n";
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "x").unwrap();
    let wishes = [
        ("apply", json!({"patch": patch})),
        ("restore", json!({"snapshot": first["head"], "path": "a"})),
        (
            "import",
            json!({"directory": directory.path(), "path": "in"}),
        ),
    ];
    for (what, wish) in wishes {
        let before = project.log().await.len();
        let mut heads = Vec::new();
        for _ in 0..2 {
            let request = service.request(Method::POST, &project.at(what));
            let request = request.header("idempotency-key", format!("key-{what}"));
            let answer = request.json(&wish).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{what}");
            heads.push(answer.json::<Value>().await.unwrap()["head"].clone());
        }
        assert_eq!(heads[0], heads[1], "{what}");
        assert_eq!(project.log().await.len(), before + 1, "{what}");
    }
    assert_eq!(project.file("a").await.unwrap(), "1\n2\n3\n");
    assert_eq!(project.file("in/file").await.unwrap(), "x");
}

/// Applies a patch and three files on the first version; returns that version.
async fn applied(project: &Project<'_>) -> Value {
    let first = project
        .put(&[("a", "1\n2\n3\n4\n5\n"), ("dir/b", "b\n")])
        .await;
    let base = first["head"].clone();
    project.put(&[("a", "1\n2\n3\n4\nFIVE\n")]).await;
    let wish = json!({"base": base, "patch": "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n+ONE\n 2\n", "files": [
        {"path": "bytes", "base64": "AP8=", "executable": true},
        {"path": "link", "symlink": "bytes"},
        {"path": "dir", "remove": true},
    ]});
    let mut dry = wish.clone();
    dry["merge"] = json!({"dryRun": true});
    let rehearsed = project.call("apply", dry, 200).await;
    assert_eq!(rehearsed["dryRun"], true);
    assert_eq!(project.file("bytes").await, None);
    project.call("apply", wish, 200).await;
    base
}

#[tokio::test]
async fn files_are_what_they_shall_be_and_others_stay() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    applied(&project).await;
    assert_eq!(
        project.file("a").await.unwrap(),
        "ONE\n2\n3\n4\nFIVE\n",
        "both"
    );
    let tar = project.tar().await;
    assert_eq!(tar["bytes"], ('f', true, vec![0, 255]));
    assert_eq!(tar["link"], ('l', false, b"bytes".to_vec()));
    assert!(!tar.contains_key("dir"), "{:?}", tar.keys());

    let wish = json!({"files": [{"path": "bytes", "executable": false}]});
    project.call("apply", wish, 200).await;
    assert!(!project.tar().await["bytes"].1);
}

#[tokio::test]
async fn invalid_changes_are_rejected() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    project.put(&[("a", "a\n")]).await;
    for wrong in [
        json!({}),
        json!({"files": [{"path": "x"}]}),
        json!({"files": [{"path": "x", "content": "", "base64": ""}]}),
        json!({"files": [{"path": "x", "content": "", "remove": true}]}),
        json!({"files": [{"path": "x", "base64": "*"}]}),
        json!({"patch": "", "patchBase64": ""}),
    ] {
        project.call("apply", wrong, 400).await;
    }
    for path in [
        "../x",
        "/x",
        "a/../x",
        ".git/config",
        "x/.Git/y",
        "",
        "x//y",
        "nul\0",
    ] {
        let wish = json!({"files": [{"path": path, "content": ""}]});
        project.call("apply", wish, 422).await;
    }
    for file in [
        json!({"path": "none", "remove": true}),
        json!({"path": "none", "executable": true}),
        json!({"path": "a/below", "content": ""}),
        json!({"path": "x", "symlink": ""}),
    ] {
        project.call("apply", json!({"files": [file]}), 422).await;
    }
}

#[tokio::test]
async fn a_path_is_restored_to_its_earlier_state() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    let base = applied(&project).await;
    // Restores a path to its earlier state, and then a path that did not exist.
    let wish = json!({"snapshot": base, "path": "dir"});
    project.call("restore", wish, 200).await;
    assert_eq!(project.file("dir/b").await.unwrap(), "b\n");
    let wish = json!({"snapshot": base, "path": "bytes"});
    project.call("restore", wish, 200).await;
    assert_eq!(project.file("bytes").await, None);
    // Later changes conflict with a revert of the first step.
    let reverted = project.call("revert", json!({"snapshot": base}), 200).await;
    assert_eq!(reverted["conflicts"][0]["path"], "a", "{reverted}");
}

#[tokio::test]
async fn paths_and_snapshots_that_never_existed_are_not_found() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    let base = applied(&project).await;
    for what in ["restore", "revert"] {
        let wish = json!({"snapshot": base, "path": "never"});
        project.call(what, wish, 404).await;
        let wish = json!({"snapshot": base, "path": "/"});
        project.call(what, wish, 400).await;
    }
    let wish = json!({"snapshot": "0".repeat(64)});
    project.call("revert", wish, 404).await;
    let wish = json!({"snapshot": base, "path": "a/below"});
    project.call("import", wish, 404).await;
}

#[tokio::test]
async fn hostile_patches_and_archives_change_nothing() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    let head = project.put(&[("f", "a\nb\nc\n")]).await["head"].clone();
    let of = |hunks: &str| format!("diff --git a/f b/f\n--- a/f\n+++ b/f\n{hunks}");
    for hunks in [
        "@@ -1,2 +1,2 @@\n a\n-x\n+B\n",
        "@@ -2 +2 @@\n-a\n+A\n",
        "@@ -9 +9 @@\n-a\n+A\n",
        "@@ -1,99999999 +1,99999999 @@\n-a\n+A\n",
        "@@ -99999999999999999999999 +1 @@\n-a\n+A\n",
        "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -2,2 +2,2 @@\n-b\n+X\n c\n",
        "nothing of a patch\n",
    ] {
        project.refused(&of(hunks)).await;
    }
    let why = project
        .refused(&of("@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-x\n+C\n"))
        .await;
    assert_eq!(why["details"]["path"], "f", "{why}");
    assert_eq!(why["details"]["hunk"], 2, "{why}");
    for name in ["../x", "/x", "a/../../x", ".git/hooks/x", "nul\\000"] {
        let patch = format!(
            "diff --git \"a/{name}\" \"b/{name}\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/{name}\"\n@@ -0,0 +1 @@\n+x\n"
        );
        project.refused(&patch).await;
        let patch = format!(
            "diff --git \"a/f\" \"b/{name}\"\nsimilarity index 100%\nrename from f\nrename to \"{name}\"\n"
        );
        project.refused(&patch).await;
    }
    let binary = "diff --git a/f b/f\nindex 1..2\nGIT binary patch\nliteral 1\nIc${Nk\n\nliteral 0\nHc$@<O00001\n\n";
    let why = project.refused(binary).await;
    assert!(why["message"].as_str().unwrap().contains('f'), "{why}");
    let submodule = "diff --git a/m b/m\nnew file mode 160000\nindex 0..1\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Subproject commit 1\n";
    project.refused(submodule).await;
    let twice = [of("@@ -1 +1 @@\n-a\n+A\n"), of("@@ -1 +1 @@\n-a\n+B\n")].concat();
    project.refused(&twice).await;

    let hostile: [(&str, tar::EntryType); 3] = [
        ("../escaped", tar::EntryType::Regular),
        ("/tmp/elevo-escaped", tar::EntryType::Regular),
        ("device", tar::EntryType::Char),
    ];
    for (name, kind) in hostile {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        let mut tar = tar::Builder::new(Vec::new());
        tar.append(&header, &[][..]).unwrap();
        let refused = project.put_tar("", tar.into_inner().unwrap(), 422).await;
        assert_eq!(refused["error"]["name"], "ARCHIVE_REFUSED", "{refused}");
    }
    for wrong in [
        json!({}),
        json!({"directory": "relative"}),
        json!({"directory": "/", "git": "/"}),
        json!({"git": "/proc"}),
        json!({"directory": "/proc/self/task", "history": true}),
    ] {
        project.call("import", wrong, 400).await;
    }
    let now = service
        .get(&format!("/api/v1/projects/{}", project.id))
        .await;
    assert_eq!(now["head"], head);
}

/// A project with a hidden and a read-only path, the key of an agent, and the
/// first version.
async fn guarded(service: &Service) -> (Project<'_>, String, Value) {
    let rules = json!([
        {"pattern": "secret/**", "access": "none"},
        {"pattern": "docs/**", "access": "r"},
    ]);
    let project = Project::new(service, json!({"rules": rules})).await;
    let key = agent(service, "one").await;
    let files = [("secret/key", "k\n"), ("docs/d", "d\n"), ("src/s", "s\n")];
    let first = project.put(&files).await;
    (project, key, first["head"].clone())
}

#[tokio::test]
async fn an_archive_for_an_agent_has_no_hidden_file() {
    let service = Service::start_bare(&[]);
    let (project, key, _) = guarded(&service).await;
    let seen = project.tar_as(&key, &[]).await;
    assert_eq!(
        seen.keys().collect::<Vec<_>>(),
        ["docs", "docs/d", "src", "src/s"]
    );
    let url = format!("{}{}", service.url, project.at("archive?path=secret"));
    let answer = service.http.get(url).bearer_auth(&key).send().await;
    assert_eq!(answer.unwrap().status(), 404);
}

/// A hidden file and a missing one get the same response.
#[tokio::test]
async fn an_agent_neither_sees_nor_changes_what_is_hidden() {
    let service = Service::start_bare(&[]);
    let (project, key, before) = guarded(&service).await;
    let mut answers = Vec::new();
    for name in ["key", "absent"] {
        let path = format!("secret/{name}");
        let patch = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-k\n+K\n");
        let refused = project
            .call_as(&key, "apply", json!({"patch": patch}), 422)
            .await;
        let wish = json!({"files": [{"path": path, "remove": true}]});
        let gone = project.call_as(&key, "apply", wish, 422).await;
        let wish = json!({"files": [{"path": path, "content": "k\n"}]});
        let made = project.call_as(&key, "apply", wish, 200).await;
        assert_eq!(made["landedCount"], 0, "{made}");
        let wish = json!({"snapshot": before, "path": path});
        let back = project.call_as(&key, "revert", wish.clone(), 404).await;
        let restored = project.call_as(&key, "restore", wish, 404).await;
        let told = [
            &refused["error"]["message"],
            &gone["error"]["message"],
            &made["refused"],
            &made["same"],
            &back["error"]["message"],
            &restored["error"]["message"],
        ];
        answers.push(told.map(|told| told.to_string().replace(name, "NAME")));
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn a_change_lands_without_its_read_only_files_unless_it_is_atomic() {
    let service = Service::start_bare(&[]);
    let (project, key, _) = guarded(&service).await;
    let wish = json!({"files": [{"path": "docs/d", "content": "D\n"}, {"path": "src/s", "content": "S\n"}]});
    let applied = project.call_as(&key, "apply", wish.clone(), 200).await;
    assert_eq!(applied["landedCount"], 1, "{applied}");
    assert_eq!(applied["refused"][0]["path"], "docs/d", "{applied}");
    let mut atomic = wish;
    atomic["files"][1]["content"] = json!("again\n");
    atomic["merge"] = json!({"atomic": true});
    project.call_as(&key, "apply", atomic, 409).await;
}

#[tokio::test]
async fn a_revert_and_an_archive_leave_hidden_paths_alone() {
    let service = Service::start_bare(&[]);
    let (project, key, before) = guarded(&service).await;
    let wish = json!({"files": [{"path": "src/s", "content": "S\n"}]});
    project.call_as(&key, "apply", wish, 200).await;
    let wish = json!({"snapshot": before});
    let reverted = project.call_as(&key, "revert", wish, 200).await;
    assert!(!reverted.to_string().contains("secret"), "{reverted}");
    assert_eq!(project.file("secret/key").await.unwrap(), "k\n");
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in [
        ("new", "n\n"),
        ("secret/key", "mine\n"),
        (".git/config", "x\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content.as_bytes())
            .unwrap();
    }
    let tar = tar.into_inner().unwrap();
    let url = format!("{}{}", service.url, project.at("archive"));
    let sent = service.http.put(url).bearer_auth(&key).body(tar);
    assert_eq!(sent.send().await.unwrap().status(), 200);
    assert_eq!(project.file("secret/key").await.unwrap(), "k\n");
    assert_eq!(project.file("docs/d").await.unwrap(), "d\n");
    assert_eq!(project.file("new").await.unwrap(), "n\n");
    assert_eq!(project.file(".git/config").await, None);
}

#[tokio::test]
async fn an_agent_imports_neither_hidden_content_nor_directories_of_the_host() {
    let service = Service::start_bare(&[]);
    let (project, key, before) = guarded(&service).await;
    let wish = json!({"snapshot": before, "path": "src/taken"});
    project.call_as(&key, "import", wish, 404).await;
    let wish = json!({"directory": "/etc"});
    project.call_as(&key, "import", wish, 403).await;
}

#[tokio::test]
async fn a_directory_replaces_what_is_there() {
    let service = Service::start_bare(&[]);
    let project = Project::new(&service, json!({})).await;
    project.put(&[("old", "o\n"), ("keep/k", "k\n")]).await;
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for many in 0..1500 {
        fs::create_dir_all(at.join("many/deep")).unwrap();
        fs::write(at.join(format!("many/deep/{many}")), format!("{many}")).unwrap();
    }
    fs::create_dir_all(at.join("nested/.git")).unwrap();
    fs::write(at.join("nested/.git/config"), "x").unwrap();
    fs::create_dir_all(at.join(".git")).unwrap();
    fs::write(at.join(".git/config"), "x").unwrap();
    fs::write(at.join("nested/file"), "x").unwrap();
    fs::write(at.join("large"), vec![7; 5 << 20]).unwrap();
    let wish = json!({"directory": at, "message": "all of it"});
    let imported = project.call("import", wish.clone(), 200).await;
    let landed: Vec<_> = imported["landed"].as_array().unwrap().iter().collect();
    assert!(landed.len() < 10, "a large directory is one: {imported}");
    let tar = project.tar().await;
    assert_eq!(tar["large"].2, vec![7; 5 << 20]);
    assert_eq!(tar["many/deep/1499"].2, b"1499");
    assert!(!tar.contains_key("old") && !tar.contains_key("keep"));
    assert!(
        !tar.keys().any(|path| path.contains(".git")),
        "never git's own"
    );
    assert_eq!(tar.len(), 1500 + 5);
    let again = project.call("import", wish, 200).await;
    assert_eq!(again["steps"], 0, "{again}");
    let snapshot = json!({"snapshot": imported["head"], "path": "copy"});
    project.call("import", snapshot, 200).await;
    assert_eq!(project.file("copy/nested/file").await.unwrap(), "x");
}
