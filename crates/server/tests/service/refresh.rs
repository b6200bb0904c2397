//! Refreshes, and the conflicts that they leave in workspaces.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, at, file, merge, paths, project, read, workspace, write};

async fn refresh(service: &Service, ws: &Ws) -> Value {
    let url = at(ws, "refresh");
    service.expect(Method::POST, &url, None, 200).await
}

/// Creates a project with these files, and two workspaces on it.
async fn two_on(service: &Service, files: &[(&str, &str)]) -> (String, Ws, Ws) {
    let id = project(service, json!({}), files).await;
    let wish = json!({"project": id});
    let one = workspace(service, wish.clone()).await;
    let two = workspace(service, wish).await;
    (id, one, two)
}

fn assert_counts(merged: &Value, landed: u64, conflicts: u64, refused: u64) {
    let counts = ["landedCount", "conflictCount", "refusedCount"].map(|name| &merged[name]);
    let expected = [json!(landed), json!(conflicts), json!(refused)];
    assert_eq!(counts, expected.each_ref(), "{merged}");
}

#[tokio::test]
async fn a_conflict_that_is_settled_after_a_refresh_lands() {
    let service = Service::start_without_engine(&[]);
    let (id, one, two) = two_on(&service, &[("a.txt", "top\nbase\nend\n")]).await;
    write(&one, "a.txt", "top\none\nend\n");
    write(&two, "a.txt", "top\ntwo\nend\n");
    merge(&service, &one).await;
    let held = merge(&service, &two).await;
    assert_counts(&held, 0, 1, 0);
    let review = held["conflicts"][0]["reviewId"]
        .as_str()
        .unwrap()
        .to_owned();

    let refreshed = refresh(&service, &two).await;
    assert_eq!(paths(&refreshed["conflicts"]), ["a.txt"], "{refreshed}");
    assert_eq!(refreshed["marked"], json!(["a.txt"]), "{refreshed}");
    assert_eq!(
        read(&two, "a.txt"),
        "top\n<<<<<<< this workspace\ntwo\n||||||| base\nbase\n=======\none\n\
         >>>>>>> the project\nend\n"
    );
    write(&two, "a.txt", "top\none and two\nend\n");
    let merged = merge(&service, &two).await;
    assert_counts(&merged, 1, 0, 0);
    let landed = file(&service, &id, "a.txt").await.unwrap();
    assert_eq!(landed, "top\none and two\nend\n");
    let old = service.get(&format!("/api/v1/reviews/{review}")).await;
    assert_eq!(old["state"], "superseded", "{old}");

    // The next change of the same line lands without a conflict.
    write(&two, "a.txt", "top\nlater\nend\n");
    assert_counts(&merge(&service, &two).await, 1, 0, 0);
}

#[tokio::test]
async fn a_file_with_markers_does_not_land_and_the_rest_does() {
    let service = Service::start_without_engine(&[]);
    let (id, one, two) = two_on(&service, &[("a.txt", "base\n"), ("b.txt", "base\n")]).await;
    write(&one, "a.txt", "one\n");
    write(&two, "a.txt", "two\n");
    merge(&service, &one).await;
    refresh(&service, &two).await;
    write(&two, "b.txt", "two\n");

    let atomic = Some(json!({"atomic": true}));
    for (what, body) in [("merge", atomic), ("complete", None)] {
        let url = at(&two, what);
        let refused = service.expect(Method::POST, &url, body, 409).await;
        assert_eq!(refused["error"]["name"], "MERGE_CONFLICT", "{refused}");
        let details = &refused["error"]["details"];
        assert_eq!(paths(&details["refused"]), ["a.txt"], "{refused}");
    }
    let merged = merge(&service, &two).await;
    assert_counts(&merged, 1, 0, 1);
    assert_eq!(paths(&merged["landed"]), ["b.txt"], "{merged}");
    assert_eq!(paths(&merged["refused"]), ["a.txt"], "{merged}");
    let reason = merged["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("conflict markers"), "{reason}");
    assert_eq!(file(&service, &id, "a.txt").await.unwrap(), "one\n");

    // Neither an edit that leaves a marker nor a refresh resolves the conflict.
    let half = read(&two, "a.txt").replace("<<<<<<< this workspace\n", "");
    write(&two, "a.txt", &half);
    let again = refresh(&service, &two).await;
    assert_eq!(read(&two, "a.txt"), half, "no markers in markers");
    assert_counts(&merge(&service, &two).await, 0, 0, 1);
    assert_eq!(again["changedCount"], 0, "{again}");

    write(&two, "a.txt", "both\n");
    assert_counts(&merge(&service, &two).await, 1, 0, 0);
    assert_eq!(file(&service, &id, "a.txt").await.unwrap(), "both\n");
}

#[tokio::test]
async fn a_conflict_without_markers_is_held_until_the_file_changes() {
    let service = Service::start_without_engine(&[]);
    let files = [("a.bin", "\0base"), ("gone.txt", "base\n")];
    let (id, one, two) = two_on(&service, &files).await;
    write(&one, "a.bin", "\0one");
    write(&one, "gone.txt", "one\n");
    merge(&service, &one).await;
    write(&two, "a.bin", "\0two");
    fs::remove_file(two.path.join("gone.txt")).unwrap();

    let refreshed = refresh(&service, &two).await;
    assert_eq!(paths(&refreshed["conflicts"]), ["a.bin", "gone.txt"]);
    assert_eq!(refreshed["marked"], json!([]), "{refreshed}");
    assert_eq!(read(&two, "a.bin"), "\0two");
    assert!(!two.path.join("gone.txt").exists());
    let held = merge(&service, &two).await;
    assert_counts(&held, 0, 2, 0);
    assert_eq!(file(&service, &id, "a.bin").await.unwrap(), "\0one");
    assert_eq!(file(&service, &id, "gone.txt").await.unwrap(), "one\n");

    write(&two, "a.bin", "\0both");
    write(&two, "gone.txt", "back\n");
    assert_counts(&merge(&service, &two).await, 2, 0, 0);
    assert_eq!(file(&service, &id, "a.bin").await.unwrap(), "\0both");
    assert_eq!(file(&service, &id, "gone.txt").await.unwrap(), "back\n");
}

#[tokio::test]
async fn the_project_moves_on_while_a_conflict_is_settled() {
    let service = Service::start_without_engine(&[]);
    let (id, one, two) = two_on(&service, &[("a.txt", "1\n2\n3\n4\n5\n6\n")]).await;
    write(&one, "a.txt", "one\n2\n3\n4\n5\n6\n");
    write(&two, "a.txt", "two\n2\n3\n4\n5\n6\n");
    merge(&service, &one).await;
    refresh(&service, &two).await;
    write(&one, "a.txt", "one\n2\n3\n4\n5\nsix\n");
    merge(&service, &one).await;

    write(&two, "a.txt", "both\n2\n3\n4\n5\n6\n");
    assert_counts(&merge(&service, &two).await, 1, 0, 0);
    let landed = file(&service, &id, "a.txt").await.unwrap();
    assert_eq!(landed, "both\n2\n3\n4\n5\nsix\n", "nothing of one is lost");
}

#[tokio::test]
async fn an_automatic_refresh_writes_no_markers() {
    let service = Service::start_without_engine(&[]);
    let id = project(&service, json!({}), &[("a.txt", "base\n")]).await;
    let one = workspace(&service, json!({"project": id})).await;
    let sync = json!({"mode": "lazy", "seconds": 1});
    let two = workspace(&service, json!({"project": id, "sync": sync})).await;
    write(&two, "a.txt", "two\n");
    write(&one, "a.txt", "one\n");
    write(&one, "b.txt", "one\n");
    merge(&service, &one).await;
    eventually("the workspace is refreshed by itself", async || {
        two.path.join("b.txt").exists()
    })
    .await;
    assert_eq!(read(&two, "a.txt"), "two\n");
    assert_counts(&merge(&service, &two).await, 0, 1, 0);
    assert_eq!(file(&service, &id, "a.txt").await.unwrap(), "one\n");
}

/// Refreshes repeatedly while merges of the same workspace happen.
async fn refresh_beside_merges(service: &Service, ws: &Ws) {
    loop {
        let request = service.request(Method::POST, &at(ws, "refresh"));
        let answer = request.send().await.unwrap();
        match answer.status().as_u16() {
            200 => return,
            status => assert_eq!(status, 409, "{}", answer.text().await.unwrap()),
        }
    }
}

/// A merge reads files, a refresh replaces them with newer ones, and then the
/// merge lands. The older files must not look like changes to the newer ones.
#[tokio::test]
async fn a_merge_concurrent_with_refreshes_reverts_nothing() {
    let service = Service::start_without_engine(&[]);
    let (id, one, two) = two_on(&service, &[("a.txt", "0\n"), ("b.txt", "0\n")]).await;
    for round in 1..=25 {
        write(&one, "a.txt", &format!("{round}\n"));
        write(&two, "b.txt", &format!("{round}\n"));
        merge(&service, &one).await;
        let merges = async || {
            merge(&service, &two).await;
            merge(&service, &two).await
        };
        let refreshes = async || {
            refresh_beside_merges(&service, &two).await;
            refresh_beside_merges(&service, &two).await;
        };
        tokio::join!(merges(), refreshes(), merges());
        let found = file(&service, &id, "a.txt").await.unwrap();
        assert_eq!(found, format!("{round}\n"), "round {round}");
    }
    assert_eq!(file(&service, &id, "b.txt").await.unwrap(), "25\n");
}

#[tokio::test]
async fn a_fork_has_the_conflicts_of_its_origin() {
    let service = Service::start().await;
    let id = project(&service, json!({}), &[("a.txt", "base\n")]).await;
    let one = workspace(&service, json!({"project": id})).await;
    let wish = json!({"template": "base", "workspace": {"project": {"name": "shared"}}});
    let two = service.post("/api/v1/sandboxes", wish).await;
    let two = two["id"].as_str().unwrap();
    write(&one, "a.txt", "one\n");
    merge(&service, &one).await;
    service.output_of(two, "echo two > a.txt").await;
    let url = format!("/api/v1/workspaces/{two}/refresh");
    service.expect(Method::POST, &url, None, 200).await;

    let url = format!("/api/v1/sandboxes/{two}/fork");
    let forks = service.post(&url, json!({"count": 1})).await;
    let fork = forks["succeeded"][0]["id"].as_str().unwrap();
    let marked = service.output_of(fork, "cat a.txt").await;
    assert!(marked.starts_with("<<<<<<< this workspace"), "{marked}");
    let url = format!("/api/v1/workspaces/{fork}/merge");
    let merged = service.expect(Method::POST, &url, None, 200).await;
    assert_counts(&merged, 0, 0, 1);
    assert_eq!(file(&service, &id, "a.txt").await.unwrap(), "one\n");
}
