//! No response to an agent reveals a path that is hidden from it: neither its
//! name nor its content, nor a hash or a size that covers it. The routes are
//! those of the API description, so a new route without a case fails the test.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, at, merge, workspace, write};

/// Part of every hidden name.
const NAME: &str = "MRK-";
/// Part of every hidden content and message.
const CONTENT: &str = "mrk-content";

/// The first files of the project: path and content.
const FILES: [(&str, &str); 7] = [
    ("open/plain.txt", "plain\n"),
    ("mixed/seen.txt", "seen\n"),
    ("mixed/MRK-file.txt", "mrk-content of a file\n"),
    ("MRK-dir/inner.txt", "mrk-content inside\n"),
    ("MRK-dir/sub/deep.txt", "mrk-content deep inside\n"),
    ("MRK-dir/moved.txt", "one\ntwo\nthree\nfour\nfive\n"),
    ("turn", "mrk-content of a file that becomes a directory\n"),
];

/// Hidden files and their sizes. The sizes are unusual, so that no sum with one
/// of them occurs by chance.
const LARGE: [(&str, usize); 3] = [
    ("MRK-dir/large", 3_141_592),
    ("mixed/MRK-large", 2_718_281),
    ("bulk/MRK-large", 1_618_033),
];

fn policy() -> Value {
    json!({"rules": [
        {"pattern": "MRK-dir", "access": "none"},
        {"pattern": "mixed/MRK-*", "access": "none"},
        {"pattern": "bulk/MRK-*", "access": "none"},
        {"pattern": "turn", "access": "none"},
        {"pattern": "turn/open.txt", "access": "rw"},
        {"pattern": "MRK-dir/held*", "merge": "review"},
        {"pattern": "open/held*", "merge": "review"},
    ]})
}

/// A project with hidden paths, and an agent that they are hidden from.
struct Hidden {
    service: Service,
    project: String,
    key: String,
    /// The newest version of each step of the log, the oldest first.
    snapshots: Vec<String>,
    /// Sequence numbers of the steps that changed hidden paths only.
    hidden_steps: Vec<u64>,
    /// The reviews of an open path, and of a hidden one.
    reviews: [String; 2],
    /// Texts that no response may contain.
    markers: BTreeSet<String>,
}

async fn key_of(service: &Service, name: &str) -> String {
    let made = service.post("/api/v1/agents", json!({"name": name})).await;
    let id = made["id"].as_str().unwrap().to_owned();
    // All scopes except those that show files of the host or the policy itself.
    let wish = json!({"name": name, "agent": id, "limits": {}, "scopes": [
        "sandboxes:read", "sandboxes:write", "process", "files", "keys",
        "projects:read", "projects:write", "reviews"]});
    let key = service.post("/api/v1/keys", wish).await;
    key["secret"].as_str().unwrap().to_owned()
}

impl Hidden {
    async fn start() -> Self {
        Self::on(Service::start().await).await
    }

    async fn on(service: Service) -> Self {
        let key = key_of(&service, "mole").await;
        let wish = json!({"name": "shared", "policy": policy()});
        let made = service.post("/api/v1/projects", wish).await;
        let project = made["id"].as_str().unwrap().to_owned();
        let mut hidden = Self {
            service,
            project,
            key,
            snapshots: Vec::new(),
            hidden_steps: Vec::new(),
            reviews: [String::new(), String::new()],
            markers: [NAME, CONTENT].map(str::to_owned).into(),
        };
        hidden.work().await;
        hidden.collect_markers().await;
        hidden
    }

    async fn workspace(&self) -> Ws {
        workspace(&self.service, json!({"project": self.project})).await
    }

    async fn land(&self, ws: &Ws, body: Value) -> u64 {
        let url = at(ws, "merge");
        let service = &self.service;
        let done = service.expect(Method::POST, &url, Some(body), 200).await;
        done["step"].as_u64().unwrap()
    }

    /// Creates the history of the project, as the owner.
    async fn work(&mut self) {
        let ws = self.workspace().await;
        for (path, content) in FILES {
            write(&ws, path, content);
        }
        for (path, size) in LARGE {
            write(&ws, path, &CONTENT.repeat(size)[..size]);
        }
        // Enough entries for the directory to land as a whole.
        for number in 0..1100 {
            write(&ws, &format!("bulk/{number}.txt"), "bulk\n");
        }
        self.land(&ws, json!({})).await;
        let moving = self.workspace().await;

        write(&ws, "MRK-dir/inner.txt", "mrk-content inside, changed\n");
        let hidden = self.land(&ws, json!({"message": CONTENT})).await;
        self.hidden_steps.push(hidden);

        // Both sides change the file that moves, so the step has a `from`.
        write(
            &ws,
            "MRK-dir/moved.txt",
            "one\ntwo\nthree\nfour\nfive\nsix\n",
        );
        let hidden = self.land(&ws, json!({})).await;
        self.hidden_steps.push(hidden);
        let files = &moving.path;
        std::fs::rename(
            files.join("MRK-dir/moved.txt"),
            files.join("mixed/moved.txt"),
        )
        .unwrap();
        self.land(&moving, json!({"renames": true})).await;

        std::fs::remove_file(ws.path.join("turn")).unwrap();
        write(&ws, "turn/open.txt", "open\n");
        self.land(&ws, json!({})).await;

        write(&ws, "mixed/seen.txt", "seen again\n");
        write(
            &ws,
            "mixed/MRK-file.txt",
            "mrk-content of a file, changed\n",
        );
        self.land(&ws, json!({})).await;

        write(&ws, "MRK-dir/held.txt", "mrk-content held\n");
        write(&ws, "open/held.txt", "held\n");
        let held = merge(&self.service, &ws).await;
        for conflict in held["conflicts"].as_array().unwrap() {
            let is_hidden = conflict["path"].as_str().unwrap().contains(NAME);
            let review = conflict["reviewId"].as_str().unwrap();
            self.reviews[usize::from(is_hidden)] = review.to_owned();
        }
    }

    fn url(&self, rest: &str) -> String {
        format!("/api/v1/projects/{}{rest}", self.project)
    }

    /// Collects hashes and sizes of hidden files, and of directories that contain
    /// some, in every version.
    async fn collect_markers(&mut self) {
        let service = &self.service;
        let log = service.get(&self.url("/steps")).await;
        let steps = log["items"].as_array().unwrap().iter().rev();
        self.snapshots = steps
            .map(|step| step["snapshot"].as_str().unwrap().to_owned())
            .collect();
        let mut found = BTreeSet::new();
        for snapshot in &self.snapshots {
            for directory in ["", "mixed", "MRK-dir", "MRK-dir/sub"] {
                let url = format!("/files/list?path={directory}&snapshot={snapshot}");
                let listed = service.get(&self.url(&url)).await;
                let entries = listed["items"].as_array().unwrap();
                let sizes = entries.iter().filter_map(|entry| entry["size"].as_u64());
                let sum: u64 = sizes.sum();
                if !directory.is_empty() && sum > 1_000_000 {
                    found.insert(format!(":{sum}"));
                }
                for entry in entries {
                    let path = entry["path"].as_str().unwrap();
                    let is_hidden =
                        path.contains(NAME) || (path == "turn" && entry["kind"] == "file");
                    let hash = entry["etag"].as_str().unwrap_or_default();
                    if path.ends_with("moved.txt") || !is_hidden || hash.is_empty() {
                        continue;
                    }
                    found.insert(hash.trim_matches('"').to_owned());
                    let size = entry["size"].as_u64().unwrap();
                    if size > 1_000_000 {
                        found.insert(format!(":{size}"));
                    }
                }
            }
        }
        // Hashes and sizes of directories that contain hidden files.
        for number in 1..=self.snapshots.len() {
            let url = format!("/steps/{number}/changes?limit=1000");
            let changes = service.get(&self.url(&url)).await;
            for change in changes["items"].as_array().unwrap() {
                let path = change["path"].as_str().unwrap();
                let holds_hidden = ["mixed", "bulk", "MRK-dir"].contains(&path);
                for side in [&change["before"], &change["after"]] {
                    let id = side["id"].as_str().filter(|_| side["type"] == "directory");
                    if let Some(id) = id.filter(|_| holds_hidden) {
                        found.insert(id.to_owned());
                        found.insert(format!(":{}", side["size"]));
                    }
                }
            }
        }
        let project = service.get(&self.url("")).await;
        found.insert(format!(":{}", project["bytes"]));
        found.insert(format!("\"entries\":{}", project["entries"]));
        found.insert(self.reviews[1].clone());
        assert!(found.len() > 15, "{found:?}");
        self.markers.extend(found);
    }

    /// Sends a request as the agent, and searches the response for markers.
    /// Returns the response and all problems.
    async fn ask(&self, case: &Case) -> (Vec<u8>, Vec<String>) {
        let url = format!("{}{}", self.service.url, case.url);
        let mut request = self.service.http.request(case.method.clone(), url);
        request = request.bearer_auth(&self.key);
        let mut asked = case.url.clone();
        match &case.body {
            Body::None => {}
            Body::Json(body) => {
                asked += &body.to_string();
                request = request.json(body);
            }
            Body::Bytes(bytes) => request = request.body(bytes.clone()),
            Body::Upgrade => {
                let headers = [
                    ("connection", "upgrade"),
                    ("upgrade", "websocket"),
                    ("sec-websocket-version", "13"),
                    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ];
                for (name, value) in headers {
                    request = request.header(name, value);
                }
            }
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let name = format!("{} {}", case.method, case.url);
        let headers = format!("{:?}", answer.headers());
        let bytes = match status {
            StatusCode::SWITCHING_PROTOCOLS => Vec::new(),
            _ => answer.bytes().await.unwrap().to_vec(),
        };
        let text = String::from_utf8_lossy(&bytes);
        let shown: String = text.chars().take(2000).collect();
        let mut problems = Vec::new();
        if status.as_u16() != case.status {
            problems.push(format!(
                "{status} instead of {}: {name}: {shown}",
                case.status
            ));
        }
        for marker in &self.markers {
            // A response may contain a path that its request names.
            let is_echo = asked.contains(marker.as_str());
            let leaks = text.contains(marker) || headers.contains(marker.as_str());
            if leaks && !is_echo {
                problems.push(format!("`{marker}` in the answer to {name}: {shown}"));
            }
        }
        (bytes, problems)
    }

    async fn json(&self, case: &Case) -> Value {
        let (bytes, problems) = self.ask(case).await;
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        serde_json::from_slice(&bytes).unwrap()
    }
}

#[derive(Clone, Debug)]
enum Body {
    None,
    Json(Value),
    Bytes(Vec<u8>),
    Upgrade,
}

/// A request of the agent: the route as in the API description, and the rest.
#[derive(Clone, Debug)]
struct Case {
    method: Method,
    route: &'static str,
    url: String,
    body: Body,
    status: u16,
}

/// Creates a case: the path with `{…}` filled in from `ids`, in their order, and
/// a query.
fn case(method: &str, route: &'static str, ids: &[&str], query: &str, status: u16) -> Case {
    let mut url = String::new();
    let mut ids = ids.iter();
    for part in route.split('/').skip(1) {
        let part = match part.starts_with('{') {
            true => ids.next().unwrap(),
            false => part,
        };
        url = format!("{url}/{part}");
    }
    if !query.is_empty() {
        url = format!("{url}?{query}");
    }
    Case {
        method: method.parse().unwrap(),
        route,
        url,
        body: Body::None,
        status,
    }
}

impl Case {
    fn json(self, body: Value) -> Self {
        let body = Body::Json(body);
        Self { body, ..self }
    }

    fn bytes(self, bytes: Vec<u8>) -> Self {
        let body = Body::Bytes(bytes);
        Self { body, ..self }
    }
}

const PROJECTS: &str = "/api/v1/projects";
const PROJECT: &str = "/api/v1/projects/{id}";
const STEPS: &str = "/api/v1/projects/{id}/steps";
const ONE_STEP: &str = "/api/v1/projects/{id}/steps/{step}";
const STEP: &str = "/api/v1/projects/{id}/steps/{step}/changes";
const LIST: &str = "/api/v1/projects/{id}/files/list";
const DIFF: &str = "/api/v1/projects/{id}/diff";
const FILE: &str = "/api/v1/projects/{id}/files";
const HISTORY: &str = "/api/v1/projects/{id}/history";
const BLAME: &str = "/api/v1/projects/{id}/blame";
const ARCHIVE: &str = "/api/v1/projects/{id}/archive";
const MERGE: &str = "/api/v1/projects/{id}/merge";
const APPLY: &str = "/api/v1/projects/{id}/apply";
const REVERT: &str = "/api/v1/projects/{id}/revert";
const RESTORE: &str = "/api/v1/projects/{id}/restore";
const SANDBOX: &str = "/api/v1/sandboxes/{id}";
const EVENTS: &str = "/api/v1/events";

/// Requests that read the project, in all its versions.
fn reading(hidden: &Hidden) -> Vec<Case> {
    let id = &*hidden.project;
    let mut cases = vec![
        case("GET", PROJECTS, &[], "", 200),
        case("GET", PROJECT, &[id], "", 200),
        case("GET", "/api/v1/projects/{id}/policy", &[id], "", 403),
        case("GET", STEPS, &[id], "", 200),
        case("GET", STEPS, &[id], "limit=1", 200),
        case("GET", "/api/v1/projects/{id}/tags", &[id], "", 200),
        case("GET", HISTORY, &[id], "path=mixed/moved.txt", 200),
        case("GET", HISTORY, &[id], "path=MRK-dir/inner.txt", 200),
        case("GET", HISTORY, &[id], "path=turn", 200),
        case("GET", HISTORY, &[id], "path=bulk/1.txt", 200),
        case("GET", HISTORY, &[id], "path=bulk", 200),
        case("GET", BLAME, &[id], "path=mixed/moved.txt", 200),
        case("GET", BLAME, &[id], "path=MRK-dir/inner.txt", 404),
        case("GET", EVENTS, &[], "", 200),
        case("GET", EVENTS, &[], "limit=1000&kinds=project.landed", 200),
        case("GET", "/api/v1/reviews", &[], "", 200),
        case("GET", "/api/v1/reviews", &[], "limit=1", 200),
        case(
            "GET",
            "/api/v1/reviews/{id}",
            &[&hidden.reviews[0]],
            "",
            200,
        ),
    ];
    let content = "/api/v1/reviews/{id}/content";
    for (review, status) in [(0, 200), (1, 404)] {
        let review = &*hidden.reviews[review];
        cases.push(case("GET", content, &[review], "side=workspace", status));
    }
    for (number, snapshot) in hidden.snapshots.iter().enumerate() {
        let sequence = (number + 1).to_string();
        cases.push(case("GET", STEP, &[id, &sequence], "", 200));
        cases.push(case("GET", STEP, &[id, &sequence], "limit=100", 200));
        let is_hidden = hidden.hidden_steps.contains(&(number as u64 + 1));
        let status = if is_hidden { 404 } else { 200 };
        cases.push(case("GET", ONE_STEP, &[id, &sequence], "", status));
        for directory in ["", "mixed", "bulk"] {
            let query = format!("path={directory}&snapshot={snapshot}&limit=1000");
            cases.push(case("GET", LIST, &[id], &query, 200));
        }
        let query = format!("path=MRK-dir&snapshot={snapshot}");
        cases.push(case("GET", LIST, &[id], &query, 404));
        cases.push(case("GET", ARCHIVE, &[id], &query, 404));
        let query = format!("path=mixed/MRK-file.txt&snapshot={snapshot}");
        cases.push(case("GET", FILE, &[id], &query, 404));
        let query = format!("path=mixed/seen.txt&snapshot={snapshot}");
        cases.push(case("GET", FILE, &[id], &query, 200));
        let query = format!("snapshot={snapshot}");
        cases.push(case("GET", ARCHIVE, &[id], &query, 200));
        for format in ["json", "patch", "stat"] {
            let query = format!("to={snapshot}&format={format}&limit=1000");
            cases.push(case("GET", DIFF, &[id], &query, 200));
            let first = &hidden.snapshots[0];
            let query = format!("from={snapshot}&to={first}&format={format}");
            cases.push(case("GET", DIFF, &[id], &query, 200));
        }
    }
    cases
}

/// Requests that change the project, or try to.
fn changing(hidden: &Hidden) -> Vec<Case> {
    let id = &*hidden.project;
    let rehearsed = json!({"dryRun": true});
    let files = |path: &str| json!({"files": [{"path": path, "content": "mine\n"}], "merge": {"dryRun": true}});
    let head = hidden.snapshots.last().unwrap();
    let mut cases = vec![
        case("POST", PROJECTS, &[], "", 403).json(json!({"name": "own"})),
        case("PATCH", PROJECT, &[id], "", 403).json(json!({"name": "own"})),
        case("DELETE", PROJECT, &[id], "", 403),
        case("PUT", "/api/v1/projects/{id}/policy", &[id], "", 403).json(json!({"policy": {}})),
        case("POST", "/api/v1/projects/{id}/tags", &[id], "", 201).json(json!({"name": "v1"})),
        case(
            "DELETE",
            "/api/v1/projects/{id}/tags/{name}",
            &[id, "v1"],
            "",
            204,
        ),
        case("POST", APPLY, &[id], "", 200).json(files("open/new.txt")),
        case("POST", APPLY, &[id], "", 200).json(files("MRK-dir")),
        case("POST", APPLY, &[id], "", 200).json(files("MRK-dir/inner.txt")),
        case("POST", APPLY, &[id], "", 422).json(files("turn")),
        case("POST", "/api/v1/projects/{id}/import", &[id], "", 404)
            .json(json!({"snapshot": head, "dryRun": true})),
        case("PUT", ARCHIVE, &[id], "dryRun=true", 200).bytes(tar(&["open/new.txt"])),
        case("PUT", ARCHIVE, &[id], "dryRun=true&path=mixed", 200).bytes(tar(&["seen.txt"])),
        case(
            "POST",
            "/api/v1/reviews/{id}/resolve",
            &[&hidden.reviews[1]],
            "",
            404,
        )
        .json(json!({"take": "workspace"})),
        case(
            "POST",
            "/api/v1/reviews/{id}/resolve",
            &[&hidden.reviews[0]],
            "",
            200,
        )
        .json(json!({"take": "workspace"})),
        case("POST", "/api/v1/reviews/resolve", &[], "", 200)
            .json(json!({"items": [{"id": hidden.reviews[1], "take": "project"}]})),
    ];
    for snapshot in &hidden.snapshots {
        let body = json!({"snapshot": snapshot, "merge": rehearsed});
        cases.push(case("POST", REVERT, &[id], "", 200).json(body));
        for (path, status) in [("mixed", 200), ("bulk", 200), ("MRK-dir", 404)] {
            let body = json!({"snapshot": snapshot, "path": path, "merge": rehearsed});
            cases.push(case("POST", RESTORE, &[id], "", status).json(body));
        }
    }
    cases
}

/// A tar of small files.
fn tar(paths: &[&str]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for path in paths {
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, &b"mine\n"[..]).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Requests about single files of the workspace or the sandbox of the agent.
fn of_files(routes: [&'static str; 4], id: &str) -> Vec<Case> {
    let [file, list, rename, mkdir] = routes;
    vec![
        case("GET", file, &[id], "path=open/plain.txt", 200),
        case("GET", file, &[id], "path=MRK-dir/inner.txt", 404),
        case("GET", list, &[id], "", 200),
        case("GET", list, &[id], "path=mixed", 200),
        case("GET", list, &[id], "path=MRK-dir", 404),
        case("PUT", file, &[id], "path=single.txt", 201).bytes(b"mine".to_vec()),
        case("POST", mkdir, &[id], "", 201).json(json!({"path": "single"})),
        case("POST", rename, &[id], "", 200)
            .json(json!({"from": "single.txt", "to": "single/moved.txt"})),
        case("DELETE", file, &[id], "path=single&recursive=true", 204),
    ]
}

const WORKSPACE_FILES: [&str; 4] = [
    "/api/v1/workspaces/{id}/files",
    "/api/v1/workspaces/{id}/files/list",
    "/api/v1/workspaces/{id}/files/move",
    "/api/v1/workspaces/{id}/files/mkdir",
];
const SANDBOX_FILES: [&str; 4] = [
    "/api/v1/sandboxes/{id}/files",
    "/api/v1/sandboxes/{id}/files/list",
    "/api/v1/sandboxes/{id}/files/move",
    "/api/v1/sandboxes/{id}/files/mkdir",
];

/// Requests about the workspace of the agent.
fn of_workspace(hidden: &Hidden, workspace: &str) -> Vec<Case> {
    let all = "/api/v1/workspaces";
    let one = "/api/v1/workspaces/{id}";
    let head = hidden.snapshots.last().unwrap();
    vec![
        case("GET", all, &[], "", 200),
        case("GET", one, &[workspace], "", 200),
        case("POST", MERGE, &[&hidden.project], "", 200)
            .json(json!({"workspaces": [workspace], "dryRun": true})),
        case(
            "POST",
            "/api/v1/workspaces/{id}/merge",
            &[workspace],
            "",
            200,
        )
        .json(json!({"dryRun": true})),
        case(
            "POST",
            "/api/v1/workspaces/{id}/refresh",
            &[workspace],
            "",
            200,
        )
        .json(json!({})),
        case("GET", "/api/v1/workspaces/{id}/diff", &[workspace], "", 200),
        case(
            "GET",
            "/api/v1/workspaces/{id}/diff",
            &[workspace],
            "format=patch",
            200,
        ),
        case(
            "GET",
            "/api/v1/workspaces/{id}/files/watch",
            &[workspace],
            "path=none",
            404,
        ),
        case(
            "GET",
            "/api/v1/workspaces/{id}/archive",
            &[workspace],
            "",
            200,
        ),
        case(
            "PUT",
            "/api/v1/workspaces/{id}/archive",
            &[workspace],
            "",
            204,
        )
        .bytes(tar(&["packed.txt"])),
        case(
            "POST",
            "/api/v1/workspaces/{id}/snapshot",
            &[workspace],
            "",
            201,
        )
        .json(json!({})),
        case(
            "POST",
            "/api/v1/workspaces/{id}/fork",
            &[workspace],
            "",
            201,
        )
        .json(json!({})),
        case(
            "POST",
            "/api/v1/workspaces/{id}/restore",
            &[workspace],
            "",
            404,
        )
        .json(json!({"snapshot": head})),
        case("GET", "/api/v1/snapshots/{id}", &[head], "", 404),
        case(
            "GET",
            "/api/v1/snapshots/{id}/files",
            &[head],
            "path=mixed/MRK-file.txt",
            404,
        ),
        case("GET", "/api/v1/snapshots/{id}/files/list", &[head], "", 404),
        case("GET", "/api/v1/snapshots/{id}/archive", &[head], "", 404),
        case("PATCH", "/api/v1/snapshots/{id}", &[head], "", 404).json(json!({"name": "mine"})),
        case(
            "GET",
            "/api/v1/snapshots/diff",
            &[],
            &format!("from={head}&to={head}"),
            404,
        ),
        case(
            "POST",
            "/api/v1/workspaces/{id}/park",
            &[workspace],
            "",
            409,
        ),
        case(
            "POST",
            "/api/v1/workspaces/{id}/resume",
            &[workspace],
            "",
            409,
        ),
        case(
            "POST",
            "/api/v1/workspaces/{id}/complete",
            &[workspace],
            "",
            409,
        )
        .json(json!({})),
        case("DELETE", one, &[workspace], "", 409),
        case("POST", all, &[], "", 201)
            .json(json!({"project": hidden.project, "snapshot": head, "readOnly": true})),
    ]
}

/// Requests about a sandbox of the agent on the project.
fn of_sandbox(hidden: &Hidden, id: &str) -> Vec<Case> {
    let head = hidden.snapshots.last().unwrap();
    let post = |route: &'static str, status: u16, body: Value| {
        case("POST", route, &[id], "", status).json(body)
    };
    let (diff, archive, watch) = (
        "/api/v1/sandboxes/{id}/diff",
        "/api/v1/sandboxes/{id}/archive",
        "/api/v1/sandboxes/{id}/files/watch",
    );
    let by_snapshot = json!({"template": "base", "workspace": {"snapshot": head}});
    let snapshot = json!({"snapshot": head});
    let mut cases = vec![
        case("GET", "/api/v1/sandboxes", &[], "", 200),
        case("POST", "/api/v1/sandboxes", &[], "", 404).json(by_snapshot),
        case("GET", SANDBOX, &[id], "", 200),
        case("GET", "/api/v1/sandboxes/{id}/stats", &[id], "", 200),
        case("GET", diff, &[id], "", 200),
        case("GET", diff, &[id], "format=patch", 200),
        case("GET", diff, &[id], &format!("from={head}"), 404),
        case("GET", archive, &[id], "", 200),
        case("GET", watch, &[id], "path=none", 404),
        case("PUT", archive, &[id], "", 204).bytes(tar(&["new.txt"])),
    ];
    cases.extend(of_files(SANDBOX_FILES, id));
    cases.extend(of_processes(id));
    cases.extend([
        post("/api/v1/sandboxes/{id}/restore", 404, snapshot),
        post("/api/v1/sandboxes/{id}/snapshot", 201, json!({})),
        post("/api/v1/sandboxes/{id}/extend", 200, json!({"seconds": 60})),
        case("PATCH", SANDBOX, &[id], "", 200).json(json!({"name": "new"})),
        case("GET", "/api/v1/sandboxes/{id}/logs", &[id], "", 200),
        post("/api/v1/sandboxes/{id}/fork", 201, json!({})),
        post("/api/v1/sandboxes/{id}/stop", 200, json!({})),
        post("/api/v1/sandboxes/{id}/start", 200, json!({})),
        case("DELETE", SANDBOX, &[id], "", 204),
        post("/api/v1/sandboxes/batch-delete", 200, json!({"ids": [id]})),
    ]);
    cases
}

/// Requests about commands and terminals in a sandbox.
fn of_processes(id: &str) -> Vec<Case> {
    let none = &[id, "none"];
    let run = "/api/v1/sandboxes/{id}/process/run";
    let process = "/api/v1/sandboxes/{id}/process/{cmdId}";
    let output = "/api/v1/sandboxes/{id}/process/{cmdId}/output";
    let input = "/api/v1/sandboxes/{id}/process/{cmdId}/input";
    let kill = "/api/v1/sandboxes/{id}/process/{cmdId}/kill";
    let terminal = "/api/v1/sandboxes/{id}/pty/{ptyId}";
    let resize = "/api/v1/sandboxes/{id}/pty/{ptyId}/resize";
    let socket = "/api/v1/sandboxes/{id}/pty/{ptyId}/ws";
    let port = "/api/v1/sandboxes/{id}/ports/{port}/{path}";
    let link = "/api/v1/sandboxes/{id}/ports/{port}/link";
    let size = json!({"cols": 80, "rows": 24});
    // Reads everything that a command can reach.
    let all = "find / -xdev \\( -path /proc -o -path /sys \\) -prune -o -print; \
               cd /workspace && find . -type f | xargs cat; env; mount";
    vec![
        case("POST", run, &[id], "", 200).json(json!({"command": all})),
        case("GET", "/api/v1/sandboxes/{id}/process", &[id], "", 200),
        case("GET", process, none, "", 404),
        case("GET", output, none, "", 404),
        case("POST", input, none, "", 404).json(json!({"data": ""})),
        case("POST", kill, none, "", 404).json(json!({})),
        case("POST", "/api/v1/sandboxes/{id}/pty", &[id], "", 201).json(size.clone()),
        case("DELETE", terminal, none, "", 404),
        case("POST", resize, none, "", 404).json(size),
        case("GET", port, &[id, "1", "page"], "", 502),
        case("POST", link, &[id, "1"], "", 201).json(json!({})),
        Case {
            body: Body::Upgrade,
            ..case("GET", socket, none, "", 404)
        },
    ]
}

/// Requests that are not about the project.
fn of_the_rest() -> Vec<Case> {
    let (template, key) = ("/api/v1/templates/{name}", "/api/v1/keys/{id}");
    let webhook = "/api/v1/webhooks/{id}";
    let rotate = "/api/v1/webhooks/{id}/rotate";
    let deliveries = "/api/v1/webhooks/{id}/deliveries";
    let replay = "/api/v1/webhooks/{id}/deliveries/{event}/replay";
    let name = json!({"name": "own"});
    vec![
        case("GET", "/health", &[], "", 200),
        case("GET", "/ready", &[], "", 200),
        case("GET", "/api/v1/agents", &[], "", 200),
        case("POST", "/api/v1/agents", &[], "", 403).json(name.clone()),
        case("DELETE", "/api/v1/agents/{id}", &["agt-none"], "", 403),
        case("GET", "/api/v1/me", &[], "", 200),
        case("GET", "/api/v1/info", &[], "", 200),
        case("GET", "/api/v1/keys", &[], "", 200),
        case("POST", "/api/v1/tickets", &[], "", 201).json(json!({"path": "/api/v1/events"})),
        case("POST", "/api/v1/keys", &[], "", 403).json(name.clone()),
        case("DELETE", key, &["none"], "", 404),
        case("GET", "/api/v1/tenants", &[], "", 403),
        case("POST", "/api/v1/tenants", &[], "", 403).json(name.clone()),
        case("PATCH", "/api/v1/tenants/{id}", &["local"], "", 403).json(name.clone()),
        case("DELETE", "/api/v1/tenants/{id}", &["local"], "", 403),
        case("GET", "/api/v1/templates", &[], "", 200),
        case("POST", "/api/v1/templates", &[], "", 403).json(name),
        case("DELETE", template, &["base"], "", 403),
        case(
            "PUT",
            "/api/v1/templates/{name}/archive",
            &["base"],
            "",
            403,
        )
        .bytes(tar(&["x"])),
        case("POST", "/api/v1/snapshots", &[], "", 201).bytes(tar(&["own.txt"])),
        case("GET", "/api/v1/snapshots", &[], "", 200),
        case("GET", "/api/v1/stats", &[], "", 403),
        case("GET", "/api/v1/gc", &[], "", 403),
        case("POST", "/api/v1/gc", &[], "", 403).json(json!({})),
        case("GET", "/api/v1/webhooks", &[], "", 403),
        case("POST", "/api/v1/webhooks", &[], "", 403).json(json!({"url": "http://localhost:1"})),
        case("GET", webhook, &["wh-none"], "", 403),
        case("PATCH", webhook, &["wh-none"], "", 403).json(json!({"kinds": []})),
        case("POST", rotate, &["wh-none"], "", 403).json(json!({})),
        case("DELETE", webhook, &["wh-none"], "", 403),
        case("GET", deliveries, &["wh-none"], "", 403),
        case("POST", replay, &["wh-none", "1"], "", 403),
    ]
}

fn routes() -> BTreeSet<(String, String)> {
    let api: Value = serde_json::from_str(&elevo_server::openapi_json()).unwrap();
    let mut routes = BTreeSet::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            routes.insert((method.to_uppercase(), path.clone()));
        }
    }
    routes
}

/// Follows `next` of a list, one item at a time.
async fn walk(hidden: &Hidden, route: &'static str, ids: &[&str]) -> Vec<Value> {
    let (mut items, mut query) = (Vec::new(), "limit=1".to_owned());
    loop {
        let page = hidden.json(&case("GET", route, ids, &query, 200)).await;
        items.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            return items;
        };
        query = format!("limit=1&cursor={next}");
    }
}

#[tokio::test]
async fn pages_of_one_item_name_no_hidden_path() {
    let hidden = Hidden::start().await;
    for number in 1..=hidden.snapshots.len() {
        let ids = [&*hidden.project, &*number.to_string()];
        let pages = walk(&hidden, STEP, &ids).await;
        let whole = case("GET", STEP, &ids, "limit=100", 200);
        let whole = hidden.json(&whole).await;
        assert_eq!(Value::from(pages), whole["items"], "step {number}");
    }
    let reviews = walk(&hidden, "/api/v1/reviews", &[]).await;
    assert_eq!(reviews.len(), 1, "{reviews:?}");
    assert_eq!(reviews[0]["id"], hidden.reviews[0]);
    let log = walk(&hidden, STEPS, &[&hidden.project]).await;
    let steps: Vec<_> = log
        .iter()
        .map(|step| step["number"].as_u64().unwrap())
        .collect();
    let count = hidden.snapshots.len() as u64;
    let expected = (1..=count)
        .rev()
        .filter(|step| !hidden.hidden_steps.contains(step));
    assert_eq!(steps, expected.collect::<Vec<_>>());
    // The step that changed an open file and a hidden one.
    assert_eq!(log[0]["changed"], 1, "{}", log[0]);
}

#[tokio::test]
async fn events_of_hidden_steps_are_not_for_the_agent() {
    let hidden = Hidden::start().await;
    let query = "limit=1000&kinds=project.landed";
    let steps = |page: &Value| -> Vec<u64> {
        let events = page["items"].as_array().unwrap().iter();
        events
            .map(|event| event["data"]["step"].as_u64().unwrap())
            .collect()
    };
    let page = hidden.json(&case("GET", EVENTS, &[], query, 200)).await;
    let count = hidden.snapshots.len() as u64;
    let expected = (1..=count).filter(|step| !hidden.hidden_steps.contains(step));
    let expected: Vec<_> = expected.collect();
    assert_eq!(steps(&page), expected);
    let all = hidden.service.get(&format!("{EVENTS}?{query}")).await;
    assert_eq!(steps(&all), (1..=count).collect::<Vec<_>>(), "the owner's");

    // A stream shows the same steps.
    let url = format!(
        "{}{EVENTS}?kinds=project.landed&cursor=0",
        hidden.service.url
    );
    let request = hidden.service.http.get(url).bearer_auth(&hidden.key);
    let request = request.header("accept", "text/event-stream");
    let mut events = crate::harness::Events::new(request.send().await.unwrap());
    for step in expected {
        let (_, event) = events.next().await.unwrap();
        assert_eq!(event["data"]["step"], step);
    }
}

#[tokio::test]
async fn a_hidden_directory_is_refused_whether_it_is_there_or_not() {
    let hidden = Hidden::start().await;
    let wish = json!({"project": hidden.project});
    let mut answers = Vec::new();
    // The second and the fourth name do not exist; the answers must not differ.
    for name in ["MRK-dir", "mixed/MRK-none", "MRK-dir/sub", "MRK-dir/none"] {
        let url = "/api/v1/workspaces";
        let made =
            hidden
                .service
                .expect_as(&hidden.key, Method::POST, url, Some(wish.clone()), 201);
        let made = made.await;
        let path = std::path::Path::new(made["path"].as_str().unwrap()).join(name);
        std::fs::create_dir_all(path).unwrap();
        let url = format!("/api/v1/workspaces/{}/merge", made["id"].as_str().unwrap());
        let body = Some(json!({"dryRun": true}));
        let done = hidden
            .service
            .expect_as(&hidden.key, Method::POST, &url, body, 200);
        let done = done.await;
        let paths = crate::shared::paths(&done["refused"]);
        assert!(paths.contains(&name.to_owned()), "{name}: {done}");
        answers.push((done["same"].clone(), done["landedCount"].clone()));
    }
    assert!(
        answers.iter().all(|answer| *answer == (0.into(), 0.into())),
        "{answers:?}"
    );
}

#[tokio::test]
async fn directories_and_projects_show_no_sums_over_hidden_paths() {
    let hidden = Hidden::start().await;
    let page = hidden
        .json(&case("GET", LIST, &[&hidden.project], "", 200))
        .await;
    let items = page["items"].as_array().unwrap();
    let paths: Vec<_> = items.iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(paths, ["bulk", "mixed", "open", "turn"]);
    for entry in items {
        assert!(
            entry["size"].is_null() && entry["etag"].is_null(),
            "{entry}"
        );
    }
    let project = hidden
        .json(&case("GET", PROJECT, &[&hidden.project], "", 200))
        .await;
    assert!(
        project["bytes"].is_null() && project["entries"].is_null(),
        "{project}"
    );
    // The lines of a file that moved from a hidden path count as new.
    let blame = case(
        "GET",
        BLAME,
        &[&hidden.project],
        "path=mixed/moved.txt",
        200,
    );
    let blame = hidden.json(&blame).await;
    let lines = blame["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{blame}");
    assert!(
        !hidden
            .hidden_steps
            .contains(&lines[0]["step"].as_u64().unwrap())
    );
}

#[tokio::test]
async fn the_reason_of_a_failure_has_no_cause_in_it() {
    let service = Service::start().await;
    service.expect_complaint("cannot start a sandbox");
    service.expect_complaint("sbx-gone");
    let id = service.sandbox().await;
    let url = format!("/api/v1/sandboxes/{id}");
    service
        .expect(Method::POST, &format!("{url}/stop"), None, 200)
        .await;
    // A start fails with an internal cause, which only the log has.
    service
        .sql(&format!(
            "UPDATE sandboxes SET workspace = 'sbx-gone' WHERE id = '{id}'"
        ))
        .await;
    let refused = service
        .request(Method::POST, &format!("{url}/start"))
        .send();
    let refused = refused.await.unwrap();
    assert!(refused.status().is_server_error());
    let refused: Value = refused.json().await.unwrap();
    let sandbox = service.get(&url).await;
    assert_eq!(sandbox["state"], "error", "{sandbox}");
    assert_eq!(sandbox["reason"], refused["error"]["message"]);
    let events = service
        .get(&format!("{EVENTS}?sandbox={id}&limit=1000"))
        .await;
    assert!(!events.to_string().contains("sbx-gone"), "{events}");
    eventually("the log has the cause", async || service.logged("sbx-gone")).await;
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    #[tokio::test]
    async fn no_answer_tells_an_agent_of_a_hidden_path() {
        let hidden = Hidden::on(Service::with_docker().await).await;
        let wish = json!({"template": "base", "workspace": {"project": {"name": hidden.project}}});
        let made = case("POST", "/api/v1/sandboxes", &[], "", 201).json(wish);
        let made = hidden.json(&made).await;
        let sandbox = made["id"].as_str().unwrap();
        let all = case("GET", "/api/v1/workspaces", &[], "", 200);
        let all = hidden.json(&all).await;
        let workspace = all["items"][0]["id"].as_str().unwrap().to_owned();

        let groups = [
            reading(&hidden),
            changing(&hidden),
            of_files(WORKSPACE_FILES, &workspace),
            of_workspace(&hidden, &workspace),
            of_sandbox(&hidden, sandbox),
            of_the_rest(),
        ];
        let (mut asked, mut problems) = (BTreeSet::new(), Vec::new());
        for case in groups.iter().flatten() {
            problems.extend(hidden.ask(case).await.1);
            asked.insert((case.method.to_string(), case.route.to_owned()));
        }
        let missing: Vec<_> = routes().difference(&asked).cloned().collect();
        assert!(missing.is_empty(), "routes without a case: {missing:?}");
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
