//! Tests of the files that a release installs: the first template, and the
//! documentation.

use std::fs;
use std::path::Path;

use elevo_testkit::docker;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::harness::Service;

fn install_image(share: &Path, name: &str) {
    fs::create_dir_all(share.join("images")).unwrap();
    let archive = docker::image_archive(name);
    let packed = zstd::encode_all(&archive[..], 3).unwrap();
    fs::write(share.join("images/busybox.tar.zst"), packed).unwrap();
}

#[tokio::test]
async fn a_server_without_templates_adds_that_of_the_release() {
    let share = tempfile::tempdir().unwrap();
    install_image(share.path(), "elevo-test/first:1");
    let setting = ("SHARE_DIR", share.path().to_str().unwrap());
    let mut service = Service::start_bare(&[setting]);
    let list = service.get("/api/v1/templates").await;
    assert_eq!(list["items"][0]["name"], "busybox", "{list}");
    assert_eq!(list["items"][0]["image"], "elevo-test/first:1", "{list}");

    // A server with a template keeps its own.
    let own = json!({"name": "elevo-test/first:1"});
    let path = "/api/v1/templates";
    service.expect(Method::POST, path, Some(own), 201).await;
    let path = "/api/v1/templates/busybox";
    service.expect(Method::DELETE, path, None, 204).await;
    service.stop();
    service.run();
    let list = service.get("/api/v1/templates").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["items"][0]["name"], "elevo-test/first:1", "{list}");
}

#[tokio::test]
async fn the_documentation_is_served_without_a_key() {
    let share = tempfile::tempdir().unwrap();
    let docs = share.path().join("docs");
    fs::create_dir_all(docs.join("guides")).unwrap();
    fs::write(docs.join("index.html"), "the start").unwrap();
    fs::write(docs.join("404.html"), "no page").unwrap();
    fs::write(docs.join("guides/a.html"), "a guide").unwrap();
    fs::write(share.path().join("secret"), "secret").unwrap();
    let setting = ("SHARE_DIR", share.path().to_str().unwrap());
    let service = Service::start_without_engine(&[setting]);
    let get = async |path: &str| {
        let response = reqwest::get(format!("{}{path}", service.url))
            .await
            .unwrap();
        let kind = response.headers().get("content-type").cloned();
        let kind = kind.map(|kind| kind.to_str().unwrap().to_owned());
        (
            response.status(),
            kind.unwrap_or_default(),
            response.text().await.unwrap(),
        )
    };
    let (status, kind, text) = get("/docs").await;
    assert_eq!(
        (status, &*kind, &*text),
        (StatusCode::OK, "text/html", "the start")
    );
    let (status, _, text) = get("/docs/guides/a.html").await;
    assert_eq!((status, &*text), (StatusCode::OK, "a guide"));
    for path in [
        "/docs/none.html",
        "/docs/%2e%2e/secret",
        "/docs/..%2fsecret",
    ] {
        let (status, _, text) = get(path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {text}");
        assert!(!text.contains("secret"), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_server_without_the_documentation_reports_the_remedy() {
    let share = tempfile::tempdir().unwrap();
    let setting = ("SHARE_DIR", share.path().to_str().unwrap());
    let service = Service::start_without_engine(&[setting]);
    let response = reqwest::get(format!("{}/docs", service.url)).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(response.text().await.unwrap().contains("SHARE_DIR"));
}

mod on_docker {
    use super::*;

    #[tokio::test]
    async fn a_damaged_archive_is_refused_with_its_cause() {
        let service = Service::with_docker().await;
        let archive = docker::image_archive("elevo-test/damaged:1");
        let mut packed = zstd::encode_all(&archive[..], 3).unwrap();
        packed.truncate(packed.len() / 2);
        let put = service.request(Method::PUT, "/api/v1/templates/damaged/archive");
        let response = put.body(packed).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let text = response.text().await.unwrap();
        assert!(text.contains("cannot be read"), "{text}");
    }
}
