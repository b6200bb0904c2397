//! The files of projects and snapshots: ranges, conditions, lists and links.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::symlink;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::harness::{KEY, Service};
use crate::shared::{agent, complete, project, workspace, write};

/// Size of a file with many chunks.
const LARGE: usize = 3_000_000;

/// Bytes that do not repeat, so that chunks differ.
fn bytes(size: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..size).map(next).collect()
}

fn archive() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let large = bytes(LARGE);
    let files = [("dir/large", 0o755, &large[..]), ("empty", 0o600, b"")];
    for (path, mode, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(784_111_777);
        tar.append_data(&mut header, path, content).unwrap();
    }
    let links = [
        ("around", "dir/../dir/large"),
        ("dir/out", "../../dir/large"),
        ("etc", "/etc/passwd"),
        ("loop", "loop"),
        ("near", "dir"),
        ("nothing", "dir/none"),
    ];
    for (path, target) in links {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, path, target).unwrap();
    }
    tar.into_inner().unwrap()
}

/// A server with a snapshot that has the name `kept`.
async fn saved() -> Service {
    let service = Service::start_without_engine(&[]);
    let request = service.request(Method::POST, "/api/v1/snapshots");
    let taken = request.body(archive()).send().await.unwrap();
    let taken: Value = taken.json().await.unwrap();
    let url = format!("/api/v1/snapshots/{}", taken["id"].as_str().unwrap());
    let name = Some(json!({"name": "kept"}));
    service.expect(Method::PATCH, &url, name, 200).await;
    service
}

async fn ask(service: &Service, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let url = format!("/api/v1/snapshots/kept/files?path={path}");
    let request = service.request(method, &url);
    let with = |request: reqwest::RequestBuilder, (name, value): &(&str, &str)| {
        request.header(*name, *value)
    };
    let request = headers.iter().fold(request, with);
    request.send().await.unwrap()
}

fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    answer.headers()[name].to_str().unwrap()
}

#[tokio::test]
async fn a_range_of_a_file_has_the_same_bytes_as_the_file() {
    let service = saved().await;
    let whole = bytes(LARGE);
    let answer = ask(&service, Method::GET, "dir/large", &[]).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(header(&answer, "x-elevo-mode"), "0755");
    assert_eq!(header(&answer, "content-disposition"), "attachment");
    assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
    let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(header(&answer, "last-modified"), modified);
    assert!(answer.bytes().await.unwrap() == whole);
    for (range, part) in [
        ("0-0", 0..1),
        ("100000-2500000", 100_000..2_500_001),
        ("2999999-", 2_999_999..LARGE),
        ("1500000-", 1_500_000..LARGE),
        ("-700000", LARGE - 700_000..LARGE),
        ("0-99999999", 0..LARGE),
    ] {
        let range = format!("bytes={range}");
        let answer = ask(&service, Method::GET, "dir/large", &[("range", &range)]).await;
        assert_eq!(answer.status(), 206, "{range}");
        let expected = format!("bytes {}-{}/{LARGE}", part.start, part.end - 1);
        assert_eq!(header(&answer, "content-range"), expected);
        assert_eq!(header(&answer, "content-length"), part.len().to_string());
        assert!(answer.bytes().await.unwrap() == whole[part], "{range}");
    }
    let several = [("range", "bytes=0-1,5-6")];
    let answer = ask(&service, Method::GET, "dir/large", &several).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.bytes().await.unwrap().len(), LARGE);
}

#[tokio::test]
async fn a_range_after_the_end_is_rejected_with_the_size() {
    let service = saved().await;
    let after = [("range", "bytes=3000000-")];
    let answer = ask(&service, Method::GET, "dir/large", &after).await;
    assert_eq!(answer.status(), 416);
    assert_eq!(header(&answer, "content-range"), "bytes */3000000");
    let error: Value = answer.json().await.unwrap();
    assert_eq!(error["error"]["name"], "RANGE_NOT_SATISFIABLE");
    assert_eq!(error["error"]["details"]["size"], LARGE);
}

#[tokio::test]
async fn head_and_conditions_send_no_content() {
    let service = saved().await;
    let with_range = [("range", "bytes=0-1")];
    let answer = ask(&service, Method::HEAD, "dir/large", &with_range).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(header(&answer, "content-length"), LARGE.to_string());
    assert_eq!(header(&answer, "accept-ranges"), "bytes");
    let etag = header(&answer, "etag").to_owned();
    assert_eq!(answer.bytes().await.unwrap(), "");
    // A link to the file has the content of the file.
    let known = [("if-none-match", &*etag)];
    let answer = ask(&service, Method::GET, "around", &known).await;
    assert_eq!(answer.status(), 304);
    assert_eq!(header(&answer, "etag"), etag);
    let answer = ask(&service, Method::GET, "empty", &known).await;
    assert_eq!(
        (answer.status().as_u16(), header(&answer, "content-length")),
        (200, "0")
    );
    assert_eq!(ask(&service, Method::HEAD, "none", &[]).await.status(), 404);
}

#[tokio::test]
async fn a_list_describes_each_entry() {
    let service = saved().await;
    let url = "/api/v1/snapshots/kept/files/list";
    let whole = service.get(url).await;
    let items = whole["items"].as_array().unwrap();
    let names: Vec<_> = items.iter().map(|item| item["name"].clone()).collect();
    let expected = ["around", "dir", "empty", "etc", "loop", "near", "nothing"];
    assert_eq!(names, expected);
    assert_eq!(items[0]["kind"], "symlink");
    assert_eq!(items[0]["target"], "dir/../dir/large");
    assert_eq!(items[1]["kind"], "directory");
    assert!(items[1]["size"].is_null(), "{}", items[1]);
    let empty = &items[2];
    assert_eq!(
        (&empty["kind"], &empty["mode"]),
        (&json!("file"), &json!("0600"))
    );
    assert_eq!(empty["modifiedAt"], "1994-11-06T08:49:37.000Z");
    let mut paged = Vec::new();
    let mut next = String::new();
    loop {
        let page = service.get(&format!("{url}?limit=2{next}")).await;
        paged.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(&paged, items);
    // A link to a directory is listed like the directory, under its own path.
    let near = service.get(&format!("{url}?path=near")).await;
    assert_eq!(near["items"][0]["path"], "near/large");
    let answer = ask(&service, Method::HEAD, "near/large", &[]).await;
    assert_eq!(near["items"][0]["etag"], header(&answer, "etag"));
}

#[tokio::test]
async fn a_path_that_is_not_a_file_inside_the_tree_is_rejected() {
    let service = saved().await;
    let files = "/api/v1/snapshots/kept/files";
    for (path, status, name, message) in [
        (
            "?path=none",
            404,
            "PATH_NOT_FOUND",
            "there is no `none` in this snapshot",
        ),
        (
            "?path=nothing",
            404,
            "PATH_NOT_FOUND",
            "there is no `nothing` in this snapshot",
        ),
        (
            "?path=empty/x",
            404,
            "PATH_NOT_FOUND",
            "there is no `empty/x` in this snapshot",
        ),
        (
            "?path=etc",
            404,
            "PATH_NOT_FOUND",
            "a link in `etc` leads out of the tree",
        ),
        (
            "?path=dir/out",
            404,
            "PATH_NOT_FOUND",
            "a link in `dir/out` leads out of the tree",
        ),
        (
            "?path=loop",
            404,
            "PATH_NOT_FOUND",
            "`loop` has too many links",
        ),
        ("?path=dir", 409, "IS_A_DIRECTORY", "`dir` is a directory"),
        ("?path=near", 409, "IS_A_DIRECTORY", "`near` is a directory"),
        ("?path=", 409, "IS_A_DIRECTORY", "`` is a directory"),
        (
            "/list?path=empty",
            409,
            "NOT_A_DIRECTORY",
            "`empty` is not a directory",
        ),
        (
            "/list?path=none",
            404,
            "PATH_NOT_FOUND",
            "there is no `none` in this snapshot",
        ),
    ] {
        let url = format!("{files}{path}");
        let refused = service.expect(Method::GET, &url, None, status).await;
        assert_eq!(refused["error"]["name"], name, "{path}");
        assert_eq!(refused["error"]["message"], message, "{path}");
    }
    for path in ["../x", "dir/../empty"] {
        let url = format!("{files}?path={path}");
        let refused = service.expect(Method::GET, &url, None, 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{path}");
    }
}

#[tokio::test]
async fn a_snapshot_is_downloaded_as_a_tar() {
    let service = saved().await;
    let unpacked = async |query: &str| {
        let url = format!("/api/v1/snapshots/kept/archive{query}");
        let answer = service.request(Method::GET, &url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let tar = answer.bytes().await.unwrap();
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content.len());
        }
        files
    };
    let all = unpacked("").await;
    assert_eq!(all["dir/large"], LARGE);
    assert!(all.contains_key("loop"), "{all:?}");
    assert_eq!(unpacked("?path=dir").await["large"], LARGE);
    let url = "/api/v1/snapshots/kept/archive?path=none";
    service.expect(Method::GET, url, None, 404).await;
}

#[tokio::test]
async fn a_link_to_a_hidden_path_leads_nowhere() {
    let service = Service::start_without_engine(&[]);
    let rules = json!({"rules": [{"pattern": "secret", "access": "none"}]});
    let files = [("open/page", "page\n"), ("secret/key", "hidden\n")];
    let id = project(&service, rules, &files).await;
    let ws = workspace(&service, json!({"project": id})).await;
    write(&ws, "open/more", "more\n");
    for (path, target) in [
        ("open/file", "../secret/key"),
        ("open/none", "../secret/none"),
        ("open/directory", "../secret"),
        ("open/through", "../secret/../open/page"),
        ("open/seen", "../open/page"),
    ] {
        symlink(target, ws.path.join(path)).unwrap();
    }
    complete(&service, &ws).await;
    let (_, key) = agent(&service, "mole").await;
    let files = format!("/api/v1/projects/{id}/files");
    let ask = async |path: &str| {
        let url = format!("{}{files}{path}", service.url);
        let answer = service.http.get(url).bearer_auth(&key).send().await;
        let answer = answer.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    for path in ["file", "none", "directory/key", "directory/none", "through"] {
        let (status, text) = ask(&format!("?path=open/{path}")).await;
        let error: Value = serde_json::from_str(&text).unwrap();
        let expected = format!("there is no `open/{path}` in this version of the project");
        assert_eq!(error["error"]["message"], expected);
        assert_eq!(status, 404);
    }
    assert_eq!(ask("/list?path=open/directory").await.0, 404);
    assert_eq!(ask("?path=open/seen").await, (200, "page\n".to_owned()));
    let (_, listed) = ask("/list").await;
    assert!(!listed.contains("secret"), "{listed}");
    // The owner of the project sees everything.
    let url = format!("{}{files}?path=open/file", service.url);
    let answer = service.http.get(url).bearer_auth(KEY).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "hidden\n");
}

#[tokio::test]
async fn an_older_version_of_a_project_keeps_its_files() {
    let service = Service::start_without_engine(&[]);
    let id = project(&service, json!({}), &[("page", "one\n")]).await;
    let tag = json!({"name": "v1"});
    service
        .post(&format!("/api/v1/projects/{id}/tags"), tag)
        .await;
    let ws = workspace(&service, json!({"project": id})).await;
    write(&ws, "page", "two, and longer\n");
    complete(&service, &ws).await;
    for (query, content) in [("", "two, and longer\n"), ("&snapshot=v1", "one\n")] {
        let url = format!("/api/v1/projects/{id}/files?path=page{query}");
        let answer = service.request(Method::GET, &url).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), content);
    }
    let url = format!("/api/v1/projects/{id}/files/list?snapshot=v1");
    let listed = service.get(&url).await;
    assert_eq!(listed["items"][0]["size"], 4);
    assert_eq!(listed["snapshot"].as_str().unwrap().len(), 64);
}
