//! Other users of the machine and the files of the server.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::harness::{Service, eventually};
use crate::shared::{Ws, at, file, merge, project, workspace};

/// The first person on most machines, and a user without rights.
const STRANGERS: [u32; 2] = [1000, 65534];

/// Runs a shell command as a user; returns whether it succeeds, and its output.
fn as_user(uid: u32, script: &str, path: &Path) -> (bool, String) {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(path)
        .current_dir("/");
    command.uid(uid).gid(uid);
    let output = command.output().unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        text += &String::from_utf8_lossy(&output.stderr);
    }
    (output.status.success(), text)
}

/// Lets other users reach the data directory of a test, so that only the server's
/// own modes keep them out.
fn open_the_way(service: &Service) {
    let above = service.data.parent().unwrap();
    fs::set_permissions(above, Permissions::from_mode(0o755)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn directories_that_were_left_open_are_closed_at_the_start() {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("it is closed now");
    service.stop();
    let data = service.data.clone();
    let left_open = [data.clone(), data.join("store"), data.join("workspaces")];
    for path in &left_open {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    service.run();
    for path in &left_open {
        assert_eq!(mode(path), 0o700, "{}", path.display());
        eventually("the log names the directory", async || {
            service.logged(&format!("\"path\":\"{}\"", path.display()))
        })
        .await;
    }
    assert!(service.logged("it is closed now"));
}

const ALICE: u32 = 1000;
const BOB: u32 = 1001;

async fn owned(service: &Service, project: &str, owner: &str) -> Ws {
    let wish = json!({"project": project, "owner": owner});
    let made = service.expect(Method::POST, "/api/v1/workspaces", Some(wish), 201);
    let made = made.await;
    Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    }
}

fn assert_works(uid: u32, ws: &Ws) {
    let script = "cd \"$1\" && cat secret && echo changed > secret && mkdir -p d && \
                  echo new > d/new && ls -a";
    let (done, text) = as_user(uid, script, &ws.path);
    assert!(done && text.contains("secret"), "{uid}: {text}");
}

fn assert_refused(uid: u32, ws: &Ws) {
    for script in [
        "ls \"$1\"",
        "cat \"$1/secret\"",
        "stat \"$1\"",
        "echo x > \"$1/x\"",
        "ls \"$1/..\"",
        "ls \"$1/../..\"",
    ] {
        let (done, text) = as_user(uid, script, &ws.path);
        assert!(!done, "{uid}: {script}: {text}");
    }
}

/// Tests that need root.
mod as_root {
    use super::*;

    #[tokio::test]
    async fn an_owner_that_cannot_be_is_refused() {
        let service = Service::start_without_engine(&[]);
        let id = project(&service, json!({}), &[("a", "a\n")]).await;
        for (owner, read_only) in [
            ("root", false),
            ("0", false),
            ("no-such-user", false),
            ("1000", true),
        ] {
            let wish = json!({"project": id, "owner": owner, "readOnly": read_only});
            let refused = service.expect(Method::POST, "/api/v1/workspaces", Some(wish), 400);
            let refused = refused.await;
            assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{refused}");
        }
        let all = service.get("/api/v1/workspaces").await;
        assert_eq!(all["items"], json!([]), "nothing is left of them");
    }

    #[tokio::test]
    async fn a_workspace_with_an_owner_is_for_that_user_alone() {
        let mut service = Service::start_without_engine(&[]);
        open_the_way(&service);
        let id = project(&service, json!({}), &[("secret", "secret\n")]).await;
        let of_alice = owned(&service, &id, "1000").await;
        let of_bob = owned(&service, &id, &BOB.to_string()).await;
        let of_none = workspace(&service, json!({"project": id})).await;
        assert_works(ALICE, &of_alice);
        assert_works(BOB, &of_bob);
        for uid in [BOB, 65534] {
            assert_refused(uid, &of_alice);
        }
        for uid in [ALICE, 65534] {
            assert_refused(uid, &of_bob);
            assert_refused(uid, &of_none);
        }
        // A user who may traverse a directory cannot list its entries.
        let (_, found) = as_user(ALICE, "find \"$1\" 2>/dev/null", &service.data);
        assert_eq!(found.trim(), service.data.to_str().unwrap());
        for name in ["store", "workspaces", "audit", "run"] {
            let (done, text) = as_user(ALICE, "ls \"$1\"", &service.data.join(name));
            assert!(!done, "{name}: {text}");
        }

        let merged = merge(&service, &of_alice).await;
        assert_eq!(merged["landedCount"], 3, "{merged}");
        assert_eq!(file(&service, &id, "secret").await.unwrap(), "changed\n");
        let refresh = at(&of_bob, "refresh");
        service.expect(Method::POST, &refresh, None, 200).await;
        // The same holds after a restart.
        service.stop();
        service.run();
        let seen = service
            .get(&format!("/api/v1/workspaces/{}", of_alice.id))
            .await;
        assert_eq!(seen["owner"], ALICE);
        assert_works(ALICE, &of_alice);
        assert_works(BOB, &of_bob);
        assert_refused(BOB, &of_alice);
        assert_refused(ALICE, &of_bob);
    }
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    #[tokio::test]
    async fn other_users_see_nothing_of_the_data_directory() {
        let service = Service::with_docker().await;
        open_the_way(&service);
        let id = project(&service, json!({}), &[("secret", "secret\n")]).await;
        let ws = workspace(&service, json!({"project": id})).await;
        let sandbox = service.sandbox().await;
        let seen = service.output_of(&sandbox, "echo hi > a; ls -ln a; id -u; ls -ld .");
        let seen = seen.await;
        for uid in STRANGERS {
            let (_, found) = as_user(uid, "find \"$1\" 2>/dev/null", &service.data);
            assert_eq!(found.trim(), service.data.to_str().unwrap(), "of {uid}");
            for path in [
                ws.path.clone(),
                ws.path.join("secret"),
                service.data.join("store"),
            ] {
                let read = as_user(uid, "cat \"$1\" || ls \"$1\"", &path);
                assert!(!read.0, "{uid} reads {}: {}", path.display(), read.1);
                let written = as_user(uid, "touch \"$1/x\"", &path);
                assert!(!written.0, "{uid} writes to {}", path.display());
            }
        }
        // Every directory keeps others out by its own mode, except the one with the
        // agent's program and socket, which containers see.
        for name in ["", "store", "workspaces", "audit", "run"] {
            assert_eq!(mode(&service.data.join(name)), 0o700, "{name}");
        }
        assert_eq!(mode(&service.data.join("catalog.db")), 0o600);
        assert!(
            seen.contains("64000"),
            "sandboxes have a user of no person: {seen}"
        );
    }
}
