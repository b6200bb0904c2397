//! A separate server for each test, deleted with everything it created.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use elevo_sandbox::sim::SimEngine;
use elevo_server::{Config, Server};
use elevo_testkit::binary::under_test;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest};

/// The key that is configured in the servers of these tests.
pub(crate) const KEY: &str = "test-key-0123456789-0123456789-0123456789";

/// An address without a container engine.
const NO_ENGINE: &str = "unix:///nonexistent/docker.sock";

/// A running server.
pub(crate) struct Service {
    child: Option<Child>,
    pub(crate) url: String,
    pub(crate) metrics: String,
    pub(crate) data: PathBuf,
    pub(crate) http: reqwest::Client,
    settings: Vec<(String, String)>,
    /// The server, if it runs in this process.
    here: Option<Server>,
    /// The engine of a server in this process, where `/workspace` is at another
    /// path.
    simulated: Option<SimEngine>,
    _directory: tempfile::TempDir,
}

/// Returns a setting that the tests need, or panics with instructions.
pub(crate) fn needed(name: &str, how: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run {how} first"))
}

pub(crate) fn docker_host() -> String {
    needed(
        "DOCKER_HOST",
        "`scripts/services up docker` and `eval \"$(scripts/services env docker)\"`",
    )
}

pub(crate) fn agent() -> String {
    needed("ELEVO_AGENT", "`export ELEVO_AGENT=$(scripts/agent)`")
}

pub(crate) fn image() -> String {
    needed(
        "ELEVO_TEST_IMAGE",
        "`eval \"$(scripts/services env docker)\"`",
    )
}

impl Service {
    /// Starts a server with the template `base`.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let service = Self::start_bare(settings);
        let body = json!({"name": "base", "image": image()});
        service
            .expect(Method::POST, "/api/v1/templates", Some(body), 201)
            .await;
        service
    }

    /// Starts a server without a template.
    pub(crate) fn start_bare(settings: &[(&str, &str)]) -> Self {
        let mut service = Self::new(settings);
        service.run();
        service
    }

    /// Starts a server in this process, without a template, with settings that
    /// the environment cannot express.
    pub(crate) async fn start_here(change: impl FnOnce(&mut Config)) -> Self {
        let mut service = Self::new(&[]);
        let mut config = Config::read(None, service.settings.clone()).unwrap();
        change(&mut config);
        let server = Server::start(config).await.unwrap();
        service.url = format!("http://{}", server.addresses().api);
        service.here = Some(server);
        service
    }

    /// Starts a server with neither a container engine nor an agent. An older
    /// binary needs both, and gets them.
    pub(crate) fn start_without_engine(settings: &[(&str, &str)]) -> Self {
        if std::env::var_os("ELEVO_SERVER_BINARY").is_some() {
            return Self::start_bare(settings);
        }
        let mut service = Self::new_without_engine(settings);
        service.run();
        service
    }

    /// Starts a server in this process on a simulated engine with the image and
    /// the template `base`; the engine continues when the server is stopped.
    pub(crate) async fn start_simulated(change: impl FnOnce(&mut Config)) -> (Self, SimEngine) {
        let engine = SimEngine::new(["base"]);
        let mut service = Self::new_without_engine(&[("AGENT_BINARY", &agent())]);
        service.run_simulated(&engine, change).await;
        let body = json!({"name": "base", "image": "base"});
        service
            .expect(Method::POST, "/api/v1/templates", Some(body), 201)
            .await;
        (service, engine)
    }

    /// Runs a server in this process on a simulated engine.
    pub(crate) async fn run_simulated(
        &mut self,
        engine: &SimEngine,
        change: impl FnOnce(&mut Config),
    ) {
        let mut config = Config::read(None, self.settings.clone()).unwrap();
        change(&mut config);
        let runtime = Arc::new(engine.runtime("sim"));
        let mut server = Server::start_on(config.clone(), runtime.clone()).await;
        for _ in 0..300 {
            match &server {
                // A task of the previous server may still be ending, and then
                // closes the store.
                Err(error) if error.to_string().contains("is being written to") => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    server = Server::start_on(config.clone(), runtime.clone()).await;
                }
                _ => break,
            }
        }
        let server = server.unwrap();
        // A process of a simulated container has no mounts: it accesses its files
        // by their path, which the server keeps private.
        let data = &self.data;
        let above = data.parent().unwrap();
        for path in [above, data, &data.join("workspaces"), &data.join("run")] {
            let_through(path, config.sandbox_user.0);
        }
        self.url = format!("http://{}", server.addresses().api);
        self.metrics = format!("http://{}", server.addresses().metrics);
        self.here = Some(server);
        self.simulated = Some(engine.clone());
    }

    /// Stops the server in this process.
    pub(crate) async fn stop_here(&mut self) {
        self.here.take().unwrap().stop().await;
    }

    pub(crate) fn new_without_engine(settings: &[(&str, &str)]) -> Self {
        let mut service = Self::with_engine(None, settings);
        service
            .settings
            .push(("DOCKER_HOST".into(), NO_ENGINE.into()));
        service
    }

    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        let engine = [("DOCKER_HOST", &*docker_host()), ("AGENT_BINARY", &agent())];
        Self::with_engine(Some(engine), settings)
    }

    fn with_engine(engine: Option<[(&str, &str); 2]>, settings: &[(&str, &str)]) -> Self {
        elevo_server::choose_cryptography();
        let directory = tempfile::Builder::new()
            .prefix("elevo-service-")
            .tempdir()
            .unwrap();
        let data = directory.path().join("data");
        let mut all: Vec<(String, String)> = [
            ("DATA_DIR", data.to_str().unwrap()),
            ("API_PORT", "0"),
            ("METRICS_PORT", "0"),
            ("API_KEY", KEY),
            ("DEFAULT_NETWORK", "none"),
            ("POOL_SIZE", "4g"),
            ("DEFAULT_DISK", "256m"),
            ("DEFAULT_MEMORY", "256m"),
            // Streams that tests leave open need not end by themselves.
            ("STOP_GRACE", "2"),
            ("RUST_LOG", "info"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let given = engine.iter().flatten().chain(settings);
        all.extend(given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Self {
            child: None,
            url: String::new(),
            metrics: String::new(),
            data,
            http: reqwest::Client::new(),
            settings: all,
            here: None,
            simulated: None,
            _directory: directory,
        }
    }

    /// Changes a setting for the next run.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Runs the server, and reads its address from the log.
    pub(crate) fn run(&mut self) {
        let ran = self.try_run(&[]);
        ran.unwrap_or_else(|text| panic!("the server has ended: {text}"));
    }

    /// Runs the server through another command.
    pub(crate) fn run_under(&mut self, command: &[&str]) {
        let ran = self.try_run_under(command, &[]);
        ran.unwrap_or_else(|text| panic!("the server has ended: {text}"));
    }

    /// Runs the server with arguments. Returns its last output if it does not
    /// start.
    pub(crate) fn try_run(&mut self, arguments: &[&str]) -> Result<(), String> {
        self.try_run_under(&[], arguments)
    }

    pub(crate) fn try_run_under(
        &mut self,
        command: &[&str],
        arguments: &[&str],
    ) -> Result<(), String> {
        let log = self.data.with_file_name("log");
        let built = env!("CARGO_BIN_EXE_workspace-server");
        let server = under_test("ELEVO_SERVER_BINARY", built);
        let mut starting = match command {
            [] => Command::new(server),
            [program, rest @ ..] => {
                let mut starting = Command::new(program);
                starting.args(rest).arg(server);
                starting
            }
        };
        let mut child = starting
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .envs(self.settings.iter().cloned())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        loop {
            let before = text.len();
            let read = lines.read_line(&mut text).unwrap();
            if read == 0 {
                assert!(!child.wait().unwrap().success(), "{text}");
                return Err(text);
            }
            let Ok(line) = serde_json::from_str::<Value>(&text[before..]) else {
                continue;
            };
            if line["message"] == "listening" {
                self.url = format!("http://{}", line["api"].as_str().unwrap());
                self.metrics = format!("http://{}", line["metrics"].as_str().unwrap());
                break;
            }
        }
        let mut out = std::fs::File::options()
            .append(true)
            .create(true)
            .open(log)
            .unwrap();
        std::thread::spawn(move || {
            let _ = std::io::Write::write_all(&mut out, text.as_bytes());
            let _ = std::io::copy(&mut lines, &mut out);
        });
        self.child = Some(child);
        Ok(())
    }

    /// Kills the server with `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops the server, and waits for it.
    pub(crate) fn stop(&mut self) {
        self.terminate();
        self.wait();
    }

    /// Asks the server to stop.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(self.child.as_ref().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for the server to end.
    pub(crate) fn wait(&mut self) {
        let mut child = self.child.take().unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Waits for the server to end; panics if it does not.
    pub(crate) async fn ends(&mut self) {
        let child = self.child.as_mut().unwrap();
        eventually("the server ends", async || {
            child.try_wait().unwrap().is_some()
        })
        .await;
        self.wait();
    }

    /// Runs a statement in the catalog behind the server's back. If the server
    /// runs, both wait for each other; a server in this process needs the test's
    /// thread for that.
    pub(crate) async fn sql(&self, statement: &str) {
        let mut sqlite = Command::new("sqlite3");
        sqlite.args(["-cmd", ".timeout 10000"]);
        sqlite.arg(self.data.join("catalog.db")).arg(statement);
        let status = tokio::task::spawn_blocking(move || sqlite.status()).await;
        assert!(status.unwrap().unwrap().success(), "{statement}");
    }

    /// The id of the server process.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Returns the warnings and errors that the server has logged.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.data.with_file_name("log")).unwrap_or_default();
        let is_bad = |line: &&str| line.contains("\"ERROR\"");
        log.lines().filter(is_bad).map(str::to_owned).collect()
    }

    /// Returns whether the log contains a text.
    pub(crate) fn logged(&self, text: &str) -> bool {
        let log = std::fs::read_to_string(self.data.with_file_name("log"));
        log.unwrap_or_default().contains(text)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(KEY)
    }

    /// Sends JSON, expects a status, returns JSON.
    pub(crate) async fn expect(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        status: u16,
    ) -> Value {
        self.expect_as(KEY, method, path, body, status).await
    }

    pub(crate) async fn expect_as(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
        status: u16,
    ) -> Value {
        let mut request = self
            .http
            .request(method.clone(), format!("{}{path}", self.url))
            .bearer_auth(key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let found = answer.status();
        let text = answer.text().await.unwrap();
        assert_eq!(found.as_u16(), status, "{method} {path}: {text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self
            .request(Method::POST, path)
            .json(&body)
            .send()
            .await
            .unwrap();
        json_of(answer).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        json_of(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// Follows the events of the tenant of another key.
    pub(crate) async fn events_as(&self, secret: &str) -> Response {
        let events = self.http.get(format!("{}/api/v1/events", self.url));
        let events = events
            .bearer_auth(secret)
            .header("accept", "text/event-stream");
        let events = events.send().await.unwrap();
        assert_eq!(events.status(), 200);
        events
    }

    /// Creates a sandbox; returns its id.
    pub(crate) async fn sandbox(&self) -> String {
        let made = self
            .post("/api/v1/sandboxes", json!({"template": "base"}))
            .await;
        assert_eq!(made["state"], "running", "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    /// Runs a command to its end.
    pub(crate) async fn run_in(&self, id: &str, command: &str) -> Value {
        let path = format!("/api/v1/sandboxes/{id}/process/run");
        let mut wish = json!({"command": command});
        if let Some(engine) = &self.simulated {
            wish["cwd"] = json!(engine.path(id, "/workspace").unwrap());
        }
        self.post(&path, wish).await
    }

    /// Returns the output of a command, which must succeed.
    pub(crate) async fn output_of(&self, id: &str, command: &str) -> String {
        let result = self.run_in(id, command).await;
        assert_eq!(result["exitCode"], 0, "{command}: {result}");
        result["stdout"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn delete(&self, id: &str) {
        let path = format!("/api/v1/sandboxes/{id}");
        self.expect(Method::DELETE, &path, None, 204).await;
    }

    /// Returns the containers of this server, running or not.
    pub(crate) fn containers(&self) -> Vec<String> {
        if self.engine() == NO_ENGINE {
            return Vec::new();
        }
        let format = "{{.Names}} {{.Label \"elevo.server\"}}";
        let all = docker(&[
            "ps",
            "-a",
            "--filter",
            "label=elevo.server",
            "--format",
            format,
        ]);
        let names = all.lines().filter_map(|line| line.split(' ').next());
        let ours = names.filter(|name| self.knows(name));
        ours.map(str::to_owned).collect()
    }

    /// Returns whether a container mounts a directory of this server.
    fn knows(&self, container: &str) -> bool {
        let mounts = self.docker(&["inspect", "--format", "{{json .Mounts}}", container]);
        mounts.contains(self.data.to_str().unwrap())
    }

    /// Calls the engine that this server uses.
    fn docker(&self, arguments: &[&str]) -> String {
        docker_at(self.engine(), arguments)
    }

    /// Returns the address of the engine that this server uses.
    fn engine(&self) -> &str {
        let mut hosts = self.settings.iter().rev();
        &hosts.find(|(name, _)| name == "DOCKER_HOST").unwrap().1
    }

    /// Returns the mounts below the data directory.
    pub(crate) fn mounts(&self) -> Vec<String> {
        mounts_below(&self.data)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        drop(self.here.take());
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.data.with_file_name("log"));
            let log = log.unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(30)..];
            eprintln!("the server's log ends with:\n{}", last.join("\n"));
        }
        for container in self.containers() {
            self.docker(&["rm", "-f", &container]);
        }
        for mount in self.mounts().iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
    }
}

/// Lets a user traverse a directory, by an entry in its access list, which a
/// restarted server leaves there.
fn let_through(directory: &Path, uid: u32) {
    let mut list = 2_u32.to_le_bytes().to_vec();
    let entries = [
        (1, 7, !0),
        (2, 1, uid),
        (4, 0, !0),
        (16, 1, !0),
        (32, 0, !0),
    ];
    for (tag, rights, id) in entries {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(rights));
        list.extend(u32::to_le_bytes(id));
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(directory, "system.posix_acl_access", &list, flags).unwrap();
}

pub(crate) fn mounts_below(path: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let ours = points.filter(|point| Path::new(point).starts_with(path));
    ours.map(str::to_owned).collect()
}

pub(crate) fn docker(arguments: &[&str]) -> String {
    docker_at(&docker_host(), arguments)
}

fn docker_at(host: &str, arguments: &[&str]) -> String {
    let output = Command::new("docker")
        .env("DOCKER_HOST", host)
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) async fn json_of(answer: Response) -> Value {
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{text}");
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// A terminal of the API.
pub(crate) type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

pub(crate) async fn connect(url: &str) -> Result<Socket, tungstenite::Error> {
    let mut request = url.into_client_request()?;
    let key = format!("Bearer {KEY}").parse().unwrap();
    request.headers_mut().insert("authorization", key);
    Ok(tokio_tungstenite::connect_async(request).await?.0)
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    // Repairs are retried every ten seconds, and more than one may be needed.
    for _ in 0..1000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

/// The events of a stream.
pub(crate) struct Events {
    answer: Response,
    text: Vec<u8>,
}

impl Events {
    pub(crate) fn new(answer: Response) -> Self {
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self {
            answer,
            text: Vec::new(),
        }
    }

    /// Returns the next event with its id; `None` at the end of the stream or if
    /// it breaks off.
    pub(crate) async fn next(&mut self) -> Option<(u64, Value)> {
        loop {
            if let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<_> = self.text.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(id), Some(data)) = (field("id: "), field("data: ")) {
                    return Some((id.parse().unwrap(), serde_json::from_str(data).unwrap()));
                }
                continue;
            }
            let piece = self.answer.chunk().await.ok()??;
            self.text.extend_from_slice(&piece);
        }
    }
}
