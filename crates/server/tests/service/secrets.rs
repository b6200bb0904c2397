//! Secrets that the server stores: variables of sandboxes and secrets of
//! webhooks.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;

const VARIABLE: &str = "marker-of-a-variable-5d1f";
const SECRET: &str = "marker-of-a-webhook-83ab";
const URL: &str = "http://127.0.0.1:9/hook";

fn key_file(service: &Service) -> PathBuf {
    service.data.with_file_name("data.secrets-key")
}

/// The first key in a key file.
fn key_in(text: &str) -> &str {
    let mut lines = text.lines();
    lines.find(|line| !line.starts_with('#')).unwrap()
}

/// Returns the files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut grep = Command::new("grep");
    grep.args(["--recursive", "--files-with-matches", "--fixed-strings"]);
    // Files in the image of a pool are found where it is mounted.
    grep.args(["--devices=skip", "--exclude=uppers.img", "--", text]);
    let output = grep.arg(directory).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    found.lines().map(str::to_owned).collect()
}

async fn sandbox_with_variable(service: &Service) -> String {
    let wish = json!({"template": "base", "envs": {"TOKEN": VARIABLE}});
    let made = service.post("/api/v1/sandboxes", wish).await;
    made["id"].as_str().unwrap().to_owned()
}

async fn token_of(service: &Service, id: &str) -> String {
    service.output_of(id, "printf %s \"$TOKEN\"").await
}

/// Returns the error of a command in a sandbox.
async fn refusal(service: &Service, id: &str) -> Value {
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let command = service.inside(id, json!({"command": "true"}));
    let refused = service.expect(Method::POST, &path, Some(command), 500);
    refused.await["error"].clone()
}

#[tokio::test]
async fn a_server_without_the_key_of_its_secrets_says_so() {
    let mut service = Service::start().await;
    service.expect_complaint("SECRET_UNREADABLE");
    let id = sandbox_with_variable(&service).await;
    service.stop();
    let (file, away) = (key_file(&service), service.data.with_file_name("away"));
    fs::rename(&file, &away).unwrap();
    let refused = service.try_run(&[]).unwrap_err();
    for part in ["does not exist or has no key", "SECRETS_KEY_FILE", "`lost "] {
        assert!(refused.contains(part), "{refused}");
    }
    // The key of another server does not work.
    fs::write(&file, format!("{}\n", "ab".repeat(32))).unwrap();
    let readable = service.try_run(&[]).unwrap_err();
    assert!(readable.contains("chmod 600"), "{readable}");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let refused = service.try_run(&[]).unwrap_err();
    let (_, rest) = refused.split_once("lacks the key ").unwrap();
    let key_id = &rest[..16];
    // The operator declares the key lost, and gives up the variables that were
    // encrypted with it.
    let other = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{other}lost {key_id}\n")).unwrap();
    service.run();
    assert_eq!(refusal(&service, &id).await["name"], "SECRET_UNREADABLE");
    let second = sandbox_with_variable(&service).await;
    assert_eq!(token_of(&service, &second).await, VARIABLE);
    service.stop();
    // The operator finds the key again and restores it.
    let found = fs::read_to_string(&away).unwrap();
    fs::write(&file, format!("{other}{found}")).unwrap();
    service.run();
    for id in [&id, &second] {
        assert_eq!(token_of(&service, id).await, VARIABLE);
    }
}

#[tokio::test]
async fn a_key_is_replaced_by_a_line_above_it() {
    let mut service = Service::start_with(&[("WEBHOOK_ALLOW_PRIVATE", "true")]).await;
    let id = sandbox_with_variable(&service).await;
    let hook = json!({"url": URL, "secret": SECRET});
    service.post("/api/v1/webhooks", hook).await;
    service.stop();
    let file = key_file(&service);
    let old = fs::read_to_string(&file).unwrap();
    let new = format!("{}\n", "cd".repeat(32));
    fs::write(&file, format!("{new}{old}")).unwrap();
    service.run();
    assert_eq!(token_of(&service, &id).await, VARIABLE);
    service.stop();
    // Everything is encrypted with the new key now.
    fs::write(&file, &new).unwrap();
    service.run();
    assert_eq!(token_of(&service, &id).await, VARIABLE);
}

#[tokio::test]
async fn plain_secrets_of_an_older_server_are_encrypted_at_the_start() {
    let mut service = Service::start_with(&[("WEBHOOK_ALLOW_PRIVATE", "true")]).await;
    let id = service.sandbox().await;
    let hook = json!({"url": URL});
    service.post("/api/v1/webhooks", hook).await;
    service.stop();
    let spec = format!("json_set(spec, '$.envs', json('{{\"TOKEN\": \"{VARIABLE}\"}}'))");
    service
        .sql(&format!("UPDATE sandboxes SET spec = {spec}"))
        .await;
    let secret = format!("UPDATE webhooks SET secret = '{SECRET}'");
    service.sql(&secret).await;
    service.run();
    assert_eq!(token_of(&service, &id).await, VARIABLE);
    let hooks = service.get("/api/v1/webhooks").await;
    assert_eq!(hooks["items"][0]["signed"], true);
    service.sql("VACUUM").await;
    service.stop();
    for text in [VARIABLE, SECRET] {
        assert_eq!(files_with(&service.data, text), [] as [&str; 0]);
    }
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;
    use crate::harness::docker;

    #[tokio::test]
    async fn secrets_are_encrypted_wherever_the_server_keeps_them() {
        let mut service = Service::with_docker_and(&[("WEBHOOK_ALLOW_PRIVATE", "true")]).await;
        assert!(
            !key_file(&service).exists(),
            "without secrets no key is made"
        );
        let first = sandbox_with_variable(&service).await;
        let path = format!("/api/v1/sandboxes/{first}/fork");
        let forked = service.post(&path, json!({})).await;
        let forked = forked["succeeded"][0]["id"].as_str().unwrap().to_owned();
        let hook = json!({"url": URL, "secret": SECRET});
        let hook = service.post("/api/v1/webhooks", hook).await;
        assert_eq!(hook["signed"], true);
        let stat = fs::metadata(key_file(&service)).unwrap();
        assert_eq!(stat.mode() & 0o777, 0o600);
        // A restart writes the log of the catalog into the catalog.
        for _ in 0..2 {
            for id in [&first, &forked] {
                assert_eq!(token_of(&service, id).await, VARIABLE);
            }
            for text in [VARIABLE, SECRET] {
                assert_eq!(files_with(&service.data, text), [] as [&str; 0]);
            }
            for container in service.containers() {
                assert!(!docker(&["inspect", &container]).contains(VARIABLE));
            }
            service.stop();
            service.run();
        }
        let key = fs::read_to_string(key_file(&service)).unwrap();
        let found = files_with(&service.data, key_in(&key));
        assert_eq!(found, [] as [&str; 0], "the key is in the data directory");
    }
}
