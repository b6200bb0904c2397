//! Files that mislead the server, and mounts.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{Arena, Runtime, in_each_runtime};

in_each_runtime!(
    links_lead_the_server_nowhere,
    special_files_delay_no_other_request,
    mounts_stay_as_they_are,
);

const SECRET: &str = "the host's own";

/// A directory of the host with a secret in it.
fn outside() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), SECRET).unwrap();
    directory
}

/// A tar with one file.
fn tar_of(path: &str, content: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    builder
        .append_data(&mut header, path, content.as_bytes())
        .unwrap();
    builder.into_inner().unwrap()
}

async fn links_lead_the_server_nowhere(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let outside = outside();
    let host = outside.path().to_str().unwrap();
    let links = format!(
        "ln -s {host} out; ln -s {host}/secret file; ln -s / root; ln -s /proc/self/root proc; \
         ln -s ../../../../../../../.. up; mkdir dir; ln -s {host} dir/out; \
         ln -s {host} ~/out; ln -s / ~/root"
    );
    arena.attack(&links).await;
    reads_through_no_link(&arena).await;
    writes_through_no_link(&arena).await;
    assert_host_unchanged(&outside);
    stores_links_as_links(&arena).await;
    follows_no_link_that_appears(&arena, host).await;
    assert_host_unchanged(&outside);
    arena.service.delete(&arena.attacker).await;
    assert_host_unchanged(&outside);
    arena.unharmed().await;
}

/// Returns the path of a request about the attacker's sandbox.
fn at(arena: &Arena, path: &str) -> String {
    format!("/api/v1/sandboxes/{}/{path}", arena.attacker)
}

async fn reads_through_no_link(arena: &Arena) {
    for path in [
        "out/secret",
        "root/etc/passwd",
        "up/etc/passwd",
        "proc/etc",
        "dir/out/secret",
    ] {
        let found = at(arena, &format!("archive?path={path}"));
        arena.service.expect(Method::GET, &found, None, 404).await;
    }
}

/// Checks that an upload writes through no link, neither by a path in the
/// archive nor by the target directory.
async fn writes_through_no_link(arena: &Arena) {
    for (place, path) in [
        ("", "out/secret"),
        ("", "dir/out/secret"),
        ("out", "secret"),
        ("", "file"),
    ] {
        let request = arena
            .service
            .request(Method::PUT, &at(arena, &format!("archive?path={place}")));
        let sent = request.body(tar_of(path, "changed")).send().await.unwrap();
        let status = sent.status().as_u16();
        assert!(
            [204, 400, 404, 409, 422].contains(&status),
            "{place} {path}: {status}"
        );
    }
}

/// Checks that archives, snapshots, forks and diffs have the links themselves,
/// not the files that they point to.
async fn stores_links_as_links(arena: &Arena) {
    let at = |path: &str| at(arena, path);
    let whole = arena.service.request(Method::GET, &at("archive?path="));
    let whole = whole.send().await.unwrap().bytes().await.unwrap();
    assert!(!contains(&whole, SECRET));
    arena
        .service
        .expect(Method::POST, &at("snapshot"), Some(json!({})), 201)
        .await;
    let patch = arena.service.request(Method::GET, &at("diff?format=patch"));
    assert!(
        !patch
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
            .contains(SECRET)
    );
    let forked = arena.service.post(&at("fork"), json!({"count": 1})).await;
    let fork = forked["succeeded"][0]["id"].as_str().unwrap();
    let seen = arena
        .service
        .run_in(fork, "cat dir/out/secret ~/out/secret")
        .await;
    assert_eq!(seen["stdout"], "", "{seen}");
}

/// A directory alternates between a link and a directory while it is read.
async fn follows_no_link_that_appears(arena: &Arena, host: &str) {
    let swap = at(arena, "archive?path=swap");
    arena
        .attack("mkdir -p swap real/swap; echo inside > real/swap/secret")
        .await;
    arena
        .begin(&format!(
            "end=$(($(date +%s) + 6)); while test $(date +%s) -lt $end; do \
             rm -rf swap; ln -s {host} swap; rm swap; cp -r real/swap swap; done"
        ))
        .await;
    for _ in 0..40 {
        let read = arena.service.request(Method::GET, &swap);
        let body = read.send().await.unwrap().bytes().await;
        assert!(!contains(&body.unwrap_or_default(), SECRET));
        let put = arena.service.request(Method::PUT, &swap);
        let _ = put.body(tar_of("secret", "changed")).send().await.unwrap();
    }
}

fn assert_host_unchanged(outside: &tempfile::TempDir) {
    let secret = std::fs::read_to_string(outside.path().join("secret")).unwrap();
    assert_eq!(secret, SECRET);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

fn contains(bytes: &[u8], words: &str) -> bool {
    bytes
        .windows(words.len())
        .any(|found| found == words.as_bytes())
}

async fn special_files_delay_no_other_request(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    // A pipe without a writer, a sparse file that is too long to read, a deep
    // directory, and names that are not text.
    arena
        .attack(
            "mkfifo pipe; truncate -s 1E huge; \
             (for i in $(seq 200); do mkdir deep && cd deep || exit; done); \
             touch \"$(printf 'no\\nline')\" \"$(printf '\\377\\376')\" -- '-rf' '..data'",
        )
        .await;
    let at = |path: &str| format!("/api/v1/sandboxes/{}/{path}", arena.attacker);
    let taking = arena
        .service
        .request(Method::POST, &at("snapshot"))
        .json(&json!({}));
    let taken = tokio::time::timeout(Duration::from_secs(60), taking.send()).await;
    assert_eq!(taken.expect("it ends in time").unwrap().status(), 201);
    arena.unharmed().await;
    // An archive that fails midway breaks off the connection.
    let deep = arena.service.request(Method::GET, &at("archive?path=deep"));
    let deep = deep.send().await.unwrap();
    assert_eq!(deep.status(), 200);
    assert!(deep.bytes().await.is_err());
    let reading = async {
        let read = arena.service.request(Method::GET, &at("archive?path=pipe"));
        let read = read.send().await.unwrap();
        (
            read.status().as_u16(),
            read.bytes().await.unwrap_or_default(),
        )
    };
    let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
    let (status, _) = read.expect("it ends in time");
    assert!(status < 500, "{status}");
    let comparing = arena.service.request(Method::GET, &at("diff"));
    let compared = tokio::time::timeout(Duration::from_secs(60), comparing.send()).await;
    assert_eq!(compared.expect("it ends in time").unwrap().status(), 200);
    arena.unharmed().await;
}

async fn mounts_stay_as_they_are(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let before = arena.attack("grep -c . /proc/self/mountinfo").await;
    let seen = arena
        .attack(
            "exec 2>/dev/null; for place in /workspace /home/agent /.elevo/run /.elevo/bin /proc /sys; do \
             umount $place && echo gone; umount -l $place && echo gone; \
             mount --bind /tmp $place && echo over; \
             mount -o remount,rw $place && echo writable; \
             mv $place /tmp/moved && echo moved; rmdir $place && echo gone; \
             ln -sfn /etc $place && test -L $place && echo linked; done; \
             touch /.elevo/bin/x && echo wrote; rm -f /.elevo/run/agent.sock; \
             echo /.elevo/run/*",
        )
        .await;
    assert_eq!(seen, "/.elevo/run/agent.sock\n");
    assert_eq!(arena.attack("grep -c . /proc/self/mountinfo").await, before);
    // Only the attacker's own files are deleted.
    arena.attack("rm -rf /workspace/* ~/* /tmp/*").await;
    arena.unharmed().await;
}
