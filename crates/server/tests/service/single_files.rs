//! Single files of sandboxes and workspaces.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::{Method, RequestBuilder, Response};
use rustix::fs::CWD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{KEY, Service, eventually, json_of};
use crate::shared::{Ws, at, project, workspace};

/// The files of one sandbox or workspace.
struct Files<'a> {
    service: &'a Service,
    base: String,
}

impl<'a> Files<'a> {
    fn of(service: &'a Service, ws: &Ws) -> Self {
        let base = at(ws, "files");
        Self { service, base }
    }

    fn of_sandbox(service: &'a Service, id: &str) -> Self {
        let base = format!("/api/v1/sandboxes/{id}/files");
        Self { service, base }
    }

    fn request(&self, method: Method, query: &str) -> RequestBuilder {
        let path = format!("{}?{query}", self.base);
        self.service.request(method, &path)
    }

    async fn put(&self, query: &str, content: impl Into<reqwest::Body>) -> Response {
        let request = self.request(Method::PUT, query);
        request.body(content).send().await.unwrap()
    }

    async fn get(&self, query: &str, headers: &[(&str, &str)]) -> Response {
        let request = self.request(Method::GET, query);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        request.send().await.unwrap()
    }

    async fn text(&self, query: &str) -> String {
        let answer = self.get(query, &[]).await;
        assert_eq!(answer.status(), 200, "{query}");
        answer.text().await.unwrap()
    }

    async fn list(&self, query: &str) -> Value {
        let path = format!("{}/list?{query}", self.base);
        self.service.get(&path).await
    }

    async fn names(&self, query: &str) -> Vec<String> {
        let list = self.list(query).await;
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn post(&self, what: &str, body: Value, status: u16) -> Value {
        let path = format!("{}/{what}", self.base);
        let service = self.service;
        service
            .expect(Method::POST, &path, Some(body), status)
            .await
    }
}

async fn is_error(answer: Response, status: u16, name: &str) {
    assert_eq!(answer.status(), status, "{name}");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["name"], name, "{body}");
}

fn header(answer: &Response, name: &str) -> String {
    let value = answer.headers().get(name);
    let value = value.unwrap_or_else(|| panic!("no {name}"));
    value.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_file_is_uploaded_downloaded_listed_moved_and_deleted() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let files = Files::of_sandbox(&service, &id);
    let answer = files
        .put("path=src/deep/main.rs&mode=0755", "fn main")
        .await;
    assert_eq!(answer.status(), 201);
    let etag = header(&answer, "etag");
    let info: Value = answer.json().await.unwrap();
    let expected = [
        ("path", json!("src/deep/main.rs")),
        ("name", json!("main.rs")),
        ("kind", json!("file")),
        ("size", json!(7)),
        ("mode", json!("0755")),
        ("etag", json!(etag)),
    ];
    for (name, value) in expected {
        assert_eq!(info[name], value, "{name}");
    }
    let seen = service
        .output_of(&id, "cat src/deep/main.rs; stat -c ' %a' src/deep/main.rs")
        .await;
    assert_eq!(seen, "fn main 755\n");
    assert!(!etag.starts_with("W/"), "{etag}");

    let answer = files.get("path=/workspace/src/deep/main.rs", &[]).await;
    for (name, value) in [
        ("etag", etag.as_str()),
        ("content-length", "7"),
        ("accept-ranges", "bytes"),
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
        ("x-elevo-mode", "0755"),
    ] {
        assert_eq!(header(&answer, name), value);
    }
    assert_eq!(answer.text().await.unwrap(), "fn main");
    let head = files.request(Method::HEAD, "path=src/deep/main.rs");
    let head = head.send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(header(&head, "content-length"), "7");

    let file = "path=src/deep/main.rs";
    let part = files.get(file, &[("range", "bytes=3-5")]).await;
    assert_eq!(part.status(), 206);
    assert_eq!(header(&part, "content-range"), "bytes 3-5/7");
    assert_eq!(part.text().await.unwrap(), "mai");
    let beyond = files.get(file, &[("range", "bytes=7-")]).await;
    assert_eq!(header(&beyond, "content-range"), "bytes */7");
    is_error(beyond, 416, "RANGE_NOT_SATISFIABLE").await;
    let known = files.get(file, &[("if-none-match", &etag)]).await;
    assert_eq!(known.status(), 304);

    let made = files.post("mkdir", json!({"path": "src/new"}), 201).await;
    assert_eq!(
        (&made["kind"], &made["mode"]),
        (&json!("directory"), &json!("0755"))
    );
    files.post("mkdir", json!({"path": "src/new"}), 200).await;
    let wish = json!({"from": "src/deep/main.rs", "to": "src/new/lib.rs"});
    let moved = files.post("move", wish, 200).await;
    assert_eq!(moved["path"], "src/new/lib.rs");
    assert_eq!(files.names("path=src").await, ["deep", "new"]);
    let page = files.list("path=src&limit=1").await;
    let next = page["next"].as_str().unwrap();
    let page = files.list(&format!("path=src&limit=1&cursor={next}")).await;
    assert_eq!(page["items"][0]["name"], "new");
    assert!(page["next"].is_null(), "{page}");

    // A stopped sandbox has its files, too.
    let stop = format!("/api/v1/sandboxes/{id}/stop");
    service.expect(Method::POST, &stop, None, 200).await;
    assert_eq!(files.text("path=src/new/lib.rs").await, "fn main");
    let answer = files
        .put("path=/home/agent/.config/tool&sync=true", "x=1")
        .await;
    let info = json_of(answer).await;
    assert_eq!(info["path"], "/home/agent/.config/tool");
    assert_eq!(files.text("path=/home/agent/.config/tool").await, "x=1");
    let delete = async |query: &str| {
        let request = files.request(Method::DELETE, query);
        request.send().await.unwrap()
    };
    is_error(delete("path=src").await, 409, "DIRECTORY_NOT_EMPTY").await;
    assert_eq!(delete("path=src&recursive=true").await.status(), 204);
    is_error(delete("path=src").await, 404, "PATH_NOT_FOUND").await;
    assert_eq!(files.names("").await, [""; 0]);
}

#[tokio::test]
async fn wrong_requests_for_files_are_rejected_with_their_reason() {
    let service = Service::start_with(&[("MAX_FILE", "1m")]).await;
    let project = project(&service, json!({}), &[("file", "one")]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    let files = Files::of(&service, &ws);
    fs::create_dir(ws.path.join("dir")).unwrap();
    fs::write(ws.path.join("dir/file"), "x").unwrap();
    let pipe = ws.path.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    symlink("/etc/passwd", ws.path.join("out")).unwrap();

    for (query, status, name) in [
        ("path=dir", 409, "IS_A_DIRECTORY"),
        ("path=file/below", 409, "NOT_A_DIRECTORY"),
        ("path=pipe", 409, "NOT_A_FILE"),
        ("path=none", 404, "PATH_NOT_FOUND"),
        ("path=out", 404, "PATH_NOT_FOUND"),
        ("path=../file", 400, "INVALID_REQUEST"),
        ("path=a%00b", 400, "INVALID_REQUEST"),
        ("path=/etc/passwd", 400, "INVALID_REQUEST"),
        ("path=file&path=file", 400, "INVALID_REQUEST"),
        ("", 400, "INVALID_REQUEST"),
    ] {
        is_error(files.get(query, &[]).await, status, name).await;
    }
    let long = "n".repeat(256);
    let longer = "d/".repeat(2100);
    for (query, status, name) in [
        ("path=dir", 409, "IS_A_DIRECTORY"),
        ("path=", 400, "INVALID_REQUEST"),
        ("path=x&mode=4755", 400, "INVALID_REQUEST"),
        ("path=none/x&parents=false", 404, "PATH_NOT_FOUND"),
        (&format!("path={long}"), 400, "INVALID_REQUEST"),
        (&format!("path={longer}"), 400, "INVALID_REQUEST"),
    ] {
        is_error(files.put(query, "x").await, status, name).await;
    }
    // The limit applies before the body is sent, and to a body without a length.
    let whole = begin(&service, &ws, Some((1 << 20) + 1)).await;
    assert_eq!(status_of(whole).await, 413);
    let mut chunked = begin(&service, &ws, None).await;
    let chunk = [b"100001\r\n".to_vec(), vec![b'x'; (1 << 20) + 1]].concat();
    chunked.write_all(&chunk).await.unwrap();
    assert_eq!(status_of(chunked).await, 413);
    let exists = json!({"from": "file", "to": "dir/file"});
    let error = files.post("move", exists, 409).await;
    assert_eq!(error["error"]["name"], "PATH_EXISTS");
    let overwrite = json!({"from": "file", "to": "dir/file", "overwrite": true});
    files.post("move", overwrite, 200).await;
    assert_eq!(files.text("path=dir/file").await, "one");

    // A name that is not UTF-8 is addressed by its bytes.
    assert_eq!(files.put("path=odd%FF", "odd").await.status(), 201);
    assert_eq!(files.text("path=odd%ff").await, "odd");
    let names = files.names("").await;
    assert!(names.contains(&"odd\u{fffd}".to_owned()), "{names:?}");

    let park = at(&ws, "park");
    service.expect(Method::POST, &park, None, 200).await;
    is_error(files.put("path=x", "x").await, 409, "WORKSPACE_PARKED").await;
    is_error(files.get("path=file", &[]).await, 409, "WORKSPACE_PARKED").await;
    let wish = json!({"project": project, "readOnly": true});
    let view = workspace(&service, wish).await;
    let files = Files::of(&service, &view);
    assert_eq!(files.text("path=file").await, "one");
    is_error(files.put("path=x", "x").await, 409, "WORKSPACE_READ_ONLY").await;
    let delete = files.request(Method::DELETE, "path=file").send().await;
    is_error(delete.unwrap(), 409, "WORKSPACE_READ_ONLY").await;
    assert_eq!(files.put("path=/home/agent/x", "x").await.status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_changes_with_one_tag_only_one_is_made() {
    let service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    let files = Files::of(&service, &ws);
    let first = files.put("path=file", "first").await;
    let etag = header(&first, "etag");
    let changes = (0..20).map(|number| {
        let request = files.request(Method::PUT, "path=file");
        let request = request.header("if-match", &etag);
        async move {
            let content = format!("{number:05}");
            request
                .body(content)
                .send()
                .await
                .unwrap()
                .status()
                .as_u16()
        }
    });
    let mut statuses = futures::future::join_all(changes).await;
    statuses.sort_unstable();
    let mut expected = vec![412; 20];
    expected[0] = 200;
    assert_eq!(statuses, expected);
    let created = (0..20).map(|_| {
        let request = files.request(Method::PUT, "path=new");
        let request = request.header("if-none-match", "*").body("x");
        async move { request.send().await.unwrap().status().as_u16() }
    });
    let mut statuses = futures::future::join_all(created).await;
    statuses.sort_unstable();
    expected[0] = 201;
    assert_eq!(statuses, expected);
    let stale = files.request(Method::DELETE, "path=file");
    let stale = stale.header("if-match", &etag).send().await.unwrap();
    is_error(stale, 412, "PRECONDITION_FAILED").await;
    // A process changes the file after it was read, without a change of its size.
    let current = header(&files.get("path=file", &[]).await, "etag");
    fs::write(ws.path.join("file"), "12345").unwrap();
    let late = files.request(Method::PUT, "path=file");
    let late = late.header("if-match", current).body("x").send().await;
    is_error(late.unwrap(), 412, "PRECONDITION_FAILED").await;
}

/// Begins an upload of `length` bytes, or of chunks; the caller sends them.
async fn begin(service: &Service, ws: &Ws, length: Option<usize>) -> TcpStream {
    let address = service.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = match length {
        Some(length) => format!("content-length: {length}"),
        None => "transfer-encoding: chunked".into(),
    };
    let head = format!(
        "PUT {}?path=dir/large HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n{length}\r\n\r\n",
        at(ws, "files")
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Reads the status of the response.
async fn status_of(mut stream: TcpStream) -> u16 {
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    let text = std::str::from_utf8(&answer).unwrap();
    text.strip_prefix("HTTP/1.1 ").unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_not_complete_is_seen_by_no_snapshot() {
    let mut service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    let server = service.pid();
    // The file without a name of the upload is open.
    let is_written = async || {
        let open = fs::read_dir(format!("/proc/{server}/fd"))
            .unwrap()
            .flatten();
        let mut open = open.filter_map(|entry| fs::metadata(entry.path()).ok());
        // The end of the part may still be in memory.
        let part = (1 << 19)..=(1 << 20);
        open.any(|file| file.is_file() && file.nlink() == 0 && part.contains(&file.len()))
    };
    let mut stream = begin(&service, &ws, Some(2 << 20)).await;
    stream.write_all(&vec![7; 1 << 20]).await.unwrap();
    eventually("a part is written", is_written).await;
    let diff = service.get(&at(&ws, "diff")).await;
    assert_eq!(diff["totals"]["added"], 0, "{diff}");
    stream.write_all(&vec![7; 1 << 20]).await.unwrap();
    assert_eq!(status_of(stream).await, 201);
    let diff = service.get(&at(&ws, "diff")).await;
    assert_eq!(diff["totals"]["added"], 2, "{diff}");
    assert_eq!(
        fs::read(ws.path.join("dir/large")).unwrap(),
        vec![7; 2 << 20]
    );

    // Neither a client that disconnects nor a server that is killed leaves a
    // part of a file behind.
    let before = fs::read_dir(&ws.path).unwrap().count();
    let mut stream = begin(&service, &ws, Some(2 << 20)).await;
    stream.write_all(&vec![8; 1 << 20]).await.unwrap();
    eventually("a part is written", is_written).await;
    drop(stream);
    eventually("the part is deleted", async || !is_written().await).await;
    let mut stream = begin(&service, &ws, Some(2 << 20)).await;
    stream.write_all(&vec![9; 1 << 20]).await.unwrap();
    eventually("a part is written", is_written).await;
    service.kill();
    service.run();
    let files = Files::of(&service, &ws);
    assert_eq!(files.names("").await.len(), before);
    assert_eq!(files.names("path=dir").await, ["large"]);
    let content = files.get("path=dir/large", &[]).await;
    assert_eq!(content.bytes().await.unwrap(), vec![7; 2 << 20]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_changes_leads_no_file_request_outside() {
    let service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "secret").unwrap();
    fs::create_dir(ws.path.join("dir")).unwrap();
    fs::write(ws.path.join("dir/file"), "inside").unwrap();
    symlink(outside.path(), ws.path.join("link")).unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let swapping = {
        let is_done = is_done.clone();
        let [dir, link] = ["dir", "link"].map(|name| ws.path.join(name));
        std::thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &dir, CWD, &link, flags).unwrap();
            }
        })
    };
    let files = Files::of(&service, &ws);
    let (mut inside, mut refused) = (0, 0);
    for round in 0..2000 {
        let read = files.get("path=dir/file", &[]).await;
        match read.status().as_u16() {
            200 => inside += 1,
            404 => refused += 1,
            status => panic!("{status}"),
        }
        let text = read.text().await.unwrap();
        assert!(!text.contains("secret"), "{text}");
        for query in ["path=dir/file", &format!("path=dir/new/{round}")] {
            let status = files.put(query, "inside").await.status();
            assert!(!status.is_server_error(), "{status}");
        }
        let delete = files.request(Method::DELETE, "path=dir/new&recursive=true");
        let status = delete.send().await.unwrap().status();
        assert!(!status.is_server_error(), "{status}");
        if inside > 20 && refused > 20 {
            break;
        }
    }
    is_done.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}
