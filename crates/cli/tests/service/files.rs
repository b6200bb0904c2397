//! Files of sandboxes: copies, forks, snapshots and differences.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::server::Server;

/// The first of several JSON lines.
fn first(lines: &str) -> Value {
    let line = lines.lines().next().expect("a line");
    serde_json::from_str(line).expect("JSON")
}

#[test]
fn files_go_there_and_back() {
    let server = Server::start();
    let id = server.sandbox();
    let at = |path: &str| format!("{id}:{path}");
    server.write("src/main.py", b"print(42)\n");
    server.write("src/data/bytes", &[0, 255, 10, 13]);
    std::os::unix::fs::symlink("main.py", server.directory.path().join("src/link")).unwrap();
    server.ok(["cp", "src", &at("project")]);
    server.ok(["cp", "src/main.py", &at("")]);
    server.ok(["cp", "src/main.py", &at("a/b/renamed")]);
    server.ok(["cp", "src/main.py", &at("into/")]);
    let found = server.ok(["exec", &id, "--", "find . -type f -o -type l | sort"]);
    let expected = "./a/b/renamed\n./into/main.py\n./main.py\n./project/data/bytes\n./project/link\n./project/main.py\n";
    assert_eq!(found, expected);

    server.ok(["cp", &at("project"), "copy"]);
    assert_eq!(server.read("copy/data/bytes"), [0, 255, 10, 13]);
    let link = fs::read_link(server.directory.path().join("copy/link")).unwrap();
    assert_eq!(link, Path::new("main.py"));
    server.ok(["cp", &at("main.py"), "copy"]);
    server.ok(["cp", &at("/workspace/main.py"), "other.py"]);
    assert_eq!(server.read("other.py"), b"print(42)\n");

    // A directory that contains a file of the same name.
    server.ok(["exec", &id, "--", "mkdir same && echo x > same/same"]);
    server.ok(["cp", &at("same"), "same"]);
    assert_eq!(server.read("same/same"), b"x\n");

    let tar = server.run(["cp", &at("project"), "-"]).stdout;
    server.feed(["cp", "-", &at("again")], &tar).text();
    let diff = ["exec", &id, "--", "diff -r project again && echo equal"];
    assert_eq!(server.ok(diff), "equal\n");
    let missing = server.run(["cp", "--json", &at("nothing"), "."]);
    assert_eq!(
        (missing.code, missing.name().as_str()),
        (3, "path_not_found")
    );
    server.ok(["sandbox", "rm", &id]);
}

#[test]
fn forks_snapshots_and_differences() {
    let server = Server::start();
    let id = server.sandbox();
    server.ok(["exec", &id, "--", "echo one > file"]);
    let snapshot = server.ok(["sandbox", "snapshot", &id, "-m", "first"]);
    server.ok(["exec", &id, "--", "echo two > file; echo new > other"]);
    assert_eq!(server.ok(["sandbox", "diff", &id]), "A\tfile\nA\tother\n");
    let since = ["sandbox", "diff", &id, "--from", "last"];
    assert_eq!(server.ok(since), "M\tfile\nA\tother\n");
    let patch = server.ok(["sandbox", "diff", "-p", &id, "--from", snapshot.trim()]);
    assert!(patch.contains("-one\n+two\n"), "{patch}");

    let forks = server.ok(["sandbox", "fork", &id, "-n", "2", "--name", "try"]);
    let forks: Vec<_> = forks.lines().collect();
    assert_eq!(forks.len(), 2);
    for fork in &forks {
        assert_eq!(
            server.ok(["exec", fork, "--", "cat file other"]),
            "two\nnew\n"
        );
    }
    let listed = server.ok(["sandbox", "ls", "--json", "--name", "try"]);
    assert_eq!(listed.lines().count(), 2);

    server.ok(["sandbox", "restore", &id, snapshot.trim()]);
    assert_eq!(
        server.ok(["exec", &id, "--", "ls; cat file"]),
        "file\none\n"
    );
    let made = server.ok([
        "sandbox",
        "create",
        "base",
        "--snapshot",
        snapshot.trim(),
        "--name",
        "n",
    ]);
    assert_eq!(server.ok(["exec", made.trim(), "--", "cat file"]), "one\n");

    server.ok(["sandbox", "stop", &id]);
    let refused = server.run(["exec", "--json", &id, "--", "true"]);
    assert_eq!(
        (refused.code, refused.name().as_str()),
        (125, "sandbox_wrong_state")
    );
    server.ok(["sandbox", "start", &id]);
    assert_eq!(server.ok(["exec", &id, "--", "cat file"]), "one\n");
    let shown = server.ok(["sandbox", "show", &id, "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["state"], "running");
    server.ok(["sandbox", "stats", &id]);
    server.ok(["sandbox", "extend", &id, "60"]);

    let all = [
        &["sandbox", "rm", "--json", "sbx-none", &id, made.trim()],
        forks.as_slice(),
    ]
    .concat();
    let removed = server.run(all);
    assert_eq!(
        (removed.code, removed.name().as_str()),
        (3, "sandbox_not_found")
    );
    assert_eq!(server.ok(["sandbox", "ls", "--json"]), "");
}

#[test]
fn commands_that_write_to_the_servers_store_go_through_the_server() {
    let mut server = Server::start();
    let store = server.data().join("store");
    let store = store.to_str().unwrap();
    server.write("work/file", b"one\n");
    let imported = server.ok([
        "import", "--store", store, "work", "--tag", "v1", "-m", "hi",
    ]);
    assert!(imported.contains("hi"), "{imported}");
    // Sandboxes can use the snapshot, and their snapshots are in the store.
    let shown = server.ok(["show", "--store", store, "v1", "--json"]);
    let shown = first(&shown);
    let snapshot = shown["snapshot"].as_str().unwrap();
    let id = server.ok(["sandbox", "create", "--snapshot", snapshot]);
    let id = id.trim_end();
    assert_eq!(server.ok(["exec", id, "--", "cat file"]), "one\n");
    let kept = server.ok(["sandbox", "snapshot", id]);
    assert_eq!(kept.trim_end(), snapshot);

    // The current directory and the author are those of the caller.
    server.ok(["checkout", "--store", store, "v1", "copy"]);
    server.write("copy/file", b"two\n");
    let mut command = server.command(["commit", "--detach", "--json", "--label", "a=b"]);
    command.current_dir(server.directory.path().join("copy"));
    let committed = command.env("ELEVO_AUTHOR", "somebody").output().unwrap();
    let committed: Value = serde_json::from_slice(&committed.stdout).unwrap();
    let newer = committed["snapshot"].as_str().unwrap();
    let shown = server.ok(["show", "--store", store, newer, "--json"]);
    let shown = first(&shown);
    assert_eq!(shown["author"], "somebody");
    assert_eq!(shown["labels"]["a"], "b");

    // Errors come back with their names and codes.
    let refused = server.run(["tag", "--json", "--store", store, "v1", newer]);
    assert_eq!((refused.code, refused.name().as_str()), (4, "tag_exists"));

    // The workspaces include those of sandboxes, which cannot be deleted.
    let path = server.ok(["ws", "--store", store, "create", "mine", "--from", "v1"]);
    assert_eq!(
        fs::read(Path::new(path.trim_end()).join("file")).unwrap(),
        b"one\n"
    );
    fs::write(Path::new(path.trim_end()).join("file"), "three\n").unwrap();
    assert_eq!(
        server.ok(["ws", "--store", store, "status", "mine"]),
        "M\tfile\n"
    );
    for json in [&[][..], &["--json"][..]] {
        let mut words = vec!["ws", "--store", store];
        words.extend(json);
        words.extend(["exec", "mine", "--", "pwd"]);
        assert_eq!(server.ok(words).trim(), path.trim());
    }
    let code = server.run([
        "ws", "--store", store, "exec", "mine", "--", "sh", "-c", "exit 7",
    ]);
    assert_eq!(code.code, 7);
    let private = ["create", "--provider", "rootless", "other"];
    let refused = server.run(["ws", "--store", store].into_iter().chain(private));
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let listed = server.ok(["ws", "--store", store, "ls"]);
    assert!(listed.contains("mine") && listed.contains(id), "{listed}");
    let differs = server.run(["ws", "--store", store, "diff", "--exit-code", "mine"]);
    assert_eq!(differs.code, 7);
    let refused = server.run(["ws", "--json", "--store", store, "rm", id]);
    assert_eq!(
        (refused.code, refused.name().as_str()),
        (4, "workspace_in_sandbox")
    );
    server.ok(["ws", "--store", store, "rm", "--discard", "mine"]);
    assert_eq!(server.ok(["exec", id, "--", "cat file"]), "one\n");
    server.ok(["sandbox", "rm", id]);

    // Without the server the commands open the store themselves.
    server.end(rustix::process::Signal::TERM);
    assert!(!server.data().join("elevo.sock").exists());
    server.ok(["tag", "--store", store, "v2", newer]);
}

#[test]
fn the_servers_store_is_verified_and_backed_up_while_the_server_holds_it() {
    let server = Server::start();
    let store = server.data().join("store");
    let store = store.to_str().unwrap();
    server.write("work/file", b"one\n");
    server.ok(["import", "--store", store, "work", "--tag", "v1"]);
    let made = server.ok(["store", "backup", "--store", store, "backups", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let backup = made["backup"].as_str().unwrap();
    assert!(Path::new(backup).join("BACKUP").is_file());
    for store in [store, backup] {
        let found = server.ok(["store", "verify", "--store", store, "--json"]);
        let found: Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
        assert_eq!(found["whole"], true);
    }
    let repaired = server.ok(["store", "repair", "--store", store, "--from", "backups"]);
    assert!(repaired.contains("Nothing is damaged"), "{repaired}");
    server.ok(["store", "restore-backup", "--store", "restored", "backups"]);
    let read = server.ok(["cat", "--store", "restored", "v1:file"]);
    assert_eq!(read, "one\n");
}

#[test]
fn a_tar_reaches_the_servers_store_by_standard_input() {
    let server = Server::start();
    let store = server.data().join("store");
    let store = store.to_str().unwrap();
    // Larger than a frame.
    let large: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    server.write("work/large", &large);
    server.ok(["import", "--store", store, "work", "--tag", "v1"]);
    server.ok(["export", "--store", store, "v1", "-o", "out.tar"]);
    let archive = server.read("out.tar");
    let send = |archive: &[u8], tag| {
        let args = ["import", "--store", store, "-", "--tag"];
        let mut command = server.command(args.into_iter().chain([tag]));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // A command that rejects the archive may not read all of it.
        let _ = input.write_all(archive);
        drop(input);
        child.wait().unwrap().code()
    };
    assert_eq!(send(&archive, "v2"), Some(0));
    let differences = server.ok(["diff", "--store", store, "v1", "v2"]);
    assert_eq!(differences, "");
    assert_eq!(send(&archive[..archive.len() / 2], "v3"), Some(1));
}
