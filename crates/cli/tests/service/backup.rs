//! Backups of a whole server, and damaged or incomplete ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::server::{ELEVO, Ended, Server};

/// Starts a server with a project. Returns the directory of a workspace of it,
/// with an unmerged file.
fn with_work(server: &mut Server) -> PathBuf {
    server.up();
    server.write("site/page.md", b"text\n");
    server.ok(["project", "create", "site"]);
    server.ok(["project", "import", "site", "site"]);
    let workspace = server.ok(["ws", "create", "--project", "site"]);
    let workspace = PathBuf::from(workspace.trim_end());
    fs::write(workspace.join("unmerged"), "work").unwrap();
    workspace
}

/// Starts a server and checks that it has the data of [`with_work`].
fn assert_has_work(server: &mut Server) {
    server.up();
    assert_eq!(server.ok(["project", "cat", "site:page.md"]), "text\n");
    let listed = server.ok(["ws", "ls", "--project", "site", "--json"]);
    let listed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let path = Path::new(listed["path"].as_str().unwrap());
    assert_eq!(fs::read_to_string(path.join("unmerged")).unwrap(), "work");
    let merged = server.ok(["ws", "merge", listed["id"].as_str().unwrap()]);
    assert!(merged.contains("1 change landed"), "{merged}");
    assert_eq!(server.ok(["project", "cat", "site:unmerged"]), "work");
}

/// The lines after `$ ` in a chapter of operations.md.
fn chapter() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("\n## Backup and restore\n").unwrap();
    let chapter = rest.split_once("\n## ").unwrap().0;
    let commands = chapter.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_chapter_back_up_and_restore_a_server() {
    let (mut server, mut restored) = (Server::new(), Server::new());
    with_work(&mut server);
    let backups = server.directory.path().join("backups");
    let commands = chapter();
    assert!(commands.len() >= 2, "{commands:?}");
    let path = std::env::var("PATH").unwrap();
    let bin = Path::new(ELEVO.as_str()).parent().unwrap();
    for command in commands {
        let command = command.replace("/backups", backups.to_str().unwrap());
        let command = command.replace("/srv/restored", restored.data().to_str().unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-euc", &command])
            .env("ELEVO_DATA", server.data())
            .env("PATH", format!("{}:{path}", bin.display()));
        Ended::new(bash.output().unwrap()).text();
    }
    // Both servers work at the same time.
    assert_has_work(&mut restored);
    server.ok(["project", "log", "site"]);
    assert!(server.end(Signal::TERM).success());
    assert!(restored.end(Signal::TERM).success());
}

#[test]
fn only_a_whole_backup_is_restored_and_only_into_an_empty_directory() {
    let (mut server, restored) = (Server::new(), Server::new());
    with_work(&mut server);
    let backups = server.directory.path().join("backups");
    let to = backups.to_str().unwrap();
    let first = server.ok(["server", "backup", to, "--json"]);
    let first: Value = serde_json::from_str(&first).unwrap();
    let second = server.ok(["server", "backup", to, "--json"]);
    let second: Value = serde_json::from_str(&second).unwrap();
    assert!(
        second["newBytes"].as_u64() < second["bytes"].as_u64(),
        "{second}"
    );
    let restore = |backup: &str, code: i32, name: &str| {
        let data = restored.data();
        let into = data.to_str().unwrap();
        let ended = server.run(["server", "restore", backup, "--data", into, "--json"]);
        assert_eq!((ended.code, ended.name().as_str()), (code, name));
        let left = fs::read_dir(&data).map_or(0, Iterator::count);
        assert_eq!(left, usize::from(name == "not_empty"), "something is left");
    };
    fs::create_dir(restored.data()).unwrap();
    fs::write(restored.data().join("file"), "").unwrap();
    restore(to, 4, "not_empty");
    fs::remove_file(restored.data().join("file")).unwrap();

    let newest = Path::new(second["backup"].as_str().unwrap());
    for file in ["catalog.db", "SERVER-BACKUP", "store/BACKUP"] {
        let path = newest.join(file);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        fs::write(&path, damaged).unwrap();
        restore(newest.to_str().unwrap(), 6, "backup_damaged");
        fs::write(&path, whole).unwrap();
    }
    // A killed backup leaves this directory.
    let unfinished = backups.join("unfinished");
    fs::rename(newest, &unfinished).unwrap();
    restore(unfinished.to_str().unwrap(), 6, "backup_unfinished");
    fs::remove_file(unfinished.join("SERVER-BACKUP")).unwrap();
    restore(unfinished.to_str().unwrap(), 6, "backup_unfinished");
    let other = backups.with_file_name("moved");
    fs::rename(&unfinished, &other).unwrap();
    restore(other.to_str().unwrap(), 6, "backup_unfinished");
    fs::remove_dir_all(other).unwrap();
    restore(
        server.directory.path().to_str().unwrap(),
        3,
        "backup_not_found",
    );

    // The previous backup is undamaged.
    let into = restored.data();
    let whole = server.ok([
        "server",
        "restore",
        to,
        "--data",
        into.to_str().unwrap(),
        "--json",
    ]);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["backup"], first["backup"]);
    let kept = server.ok(["server", "backup", to, "--keep", "1", "--json"]);
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["removed"][0], first["backup"], "{kept}");
    assert!(server.end(Signal::TERM).success());
    let gone = server.run(["server", "backup", to, "--json"]);
    assert_eq!((gone.code, gone.name().as_str()), (3, "server_not_running"));
}

/// The default key file of a server.
fn key_file(server: &Server) -> PathBuf {
    let mut file = server.data().into_os_string();
    file.push(".secrets-key");
    file.into()
}

/// Whether a file below a directory contains a text.
fn is_below(directory: &Path, text: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_below(&path, text),
            false => {
                let bytes = fs::read(path).unwrap();
                bytes.windows(text.len()).any(|part| part == text)
            }
        }
    })
}

#[test]
fn a_restore_says_when_the_key_of_secrets_is_missing() {
    let (mut server, mut restored) = (Server::new(), Server::new());
    let mut up = server.up_command();
    up.env("WEBHOOK_ALLOW_PRIVATE", "true");
    server.up_by(up);
    server.write("hook.key", b"marker-of-a-secret");
    let hook = "http://127.0.0.1:9/";
    server.ok(["webhook", "create", hook, "--secret-file", "hook.key"]);
    let backups = server.directory.path().join("backups");
    let to = backups.to_str().unwrap();
    server.ok(["server", "backup", to]);
    let key = fs::read_to_string(key_file(&server)).unwrap();
    let key = key.lines().last().unwrap();
    for text in [key, "marker-of-a-secret"] {
        assert!(
            !is_below(&backups, text.as_bytes()),
            "{text} is in a backup"
        );
    }
    let data = restored.data();
    let into = data.to_str().unwrap();
    let restore = ["server", "restore", to, "--data", into];
    let said = server.ok(restore);
    let wanted = key_file(&restored);
    let copy = format!(
        "Copy the key file of the original server to {}",
        wanted.display()
    );
    assert!(said.contains(&copy), "{said}");
    let refused = Ended::new(restored.up_command().output().unwrap());
    assert!(
        refused.code != 0 && refused.stderr.contains("SECRETS_KEY_FILE"),
        "{}",
        refused.stderr
    );
    fs::remove_dir_all(&data).unwrap();
    fs::copy(key_file(&server), &wanted).unwrap();
    let restore = restore.into_iter().chain(["--json"]);
    let said: Value = serde_json::from_str(&server.ok(restore)).unwrap();
    assert_eq!(said["secretsKey"]["isThere"], true, "{said}");
    restored.up();
    let listed = restored.ok(["webhook", "ls", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["signed"], true, "{listed}");
}

#[test]
fn the_store_of_a_server_is_not_collected_without_its_catalog() {
    let mut server = Server::new();
    let workspace = with_work(&mut server);
    assert!(server.end(Signal::TERM).success());
    let store = server.data().join("store");
    let store = store.to_str().unwrap();
    let refused = server.run(["store", "gc", "--store", store, "--keep", "0", "--json"]);
    assert_eq!(
        (refused.code, refused.name().as_str()),
        (4, "store_of_server")
    );
    assert!(
        refused.stderr.contains("elevo server gc"),
        "{}",
        refused.stderr
    );
    // The collection is also rejected if only an older server, which writes no
    // stamp, has opened the store.
    fs::remove_file(server.data().join("store/SERVER")).unwrap();
    let refused = server.run(["store", "gc", "--store", store, "--keep", "0", "--json"]);
    assert_eq!(
        (refused.code, refused.name().as_str()),
        (4, "store_of_server")
    );

    server.up();
    assert_eq!(server.ok(["project", "cat", "site:page.md"]), "text\n");
    assert!(workspace.join("page.md").exists());
    let collected = server.run(["server", "gc", "--dry-run"]).text();
    assert!(collected.starts_with("Would delete "), "{collected}");
}

#[test]
fn a_backup_of_the_store_says_that_it_is_not_one_of_the_server() {
    let mut server = Server::new();
    server.up();
    let store = server.data().join("store");
    let to = server.directory.path().join("backups");
    let args = [
        "store",
        "backup",
        "--store",
        store.to_str().unwrap(),
        to.to_str().unwrap(),
    ];
    let made = server.run(args);
    assert!(
        made.stderr.contains("elevo server backup"),
        "{}",
        made.stderr
    );
    made.text();
    let made = server.ok(args.into_iter().chain(["--json"]));
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["store_of_server"], true, "{made}");
}
