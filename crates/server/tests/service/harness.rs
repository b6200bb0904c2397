//! A separate server for each test, deleted with everything it created.

#[path = "harness/log.rs"]
mod log;
#[path = "harness/server_process.rs"]
mod server_process;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use elevo_api::event_stream::Parser;
use elevo_sandbox::sim::SimEngine;
use elevo_server::{Config, Server};
use elevo_testkit::binary::under_test;
use elevo_testkit::postgres::Database;
use elevo_testkit::wait::until_async;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest};

use log::Log;

/// The key that is configured in the servers of these tests.
pub(crate) const KEY: &str = "test-key-0123456789-0123456789-0123456789";

/// An address without a container engine.
const NO_ENGINE: &str = "unix:///nonexistent/docker.sock";

/// The image of a simulated engine.
const SIMULATED_IMAGE: &str = "base";

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
    engine: Engine,
    log: Log,
    /// The catalog, if it is not in the data directory.
    database: Option<Database>,
    _directory: tempfile::TempDir,
}

/// Creates a database for the catalog if the tests are to use PostgreSQL.
fn database_of_the_run() -> Option<Database> {
    let named = std::env::var("ELEVO_TEST_CATALOG").ok()?;
    assert_eq!(
        named, "postgres",
        "ELEVO_TEST_CATALOG can only be `postgres`"
    );
    Some(Database::create())
}

/// The container engine of a server.
enum Engine {
    /// A real one: for tests about containers, images, limits and isolation.
    Docker,
    /// One that needs neither Docker nor root, where `/workspace` is at another
    /// path.
    Simulated(SimEngine),
    /// None: sandboxes are rejected.
    Missing,
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

/// Returns the agent for simulated containers. It runs on the host, so the one
/// that `cargo build` built works as well.
fn agent_on_the_host() -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_workspace-server"));
    let built = built.with_file_name("workspace-agent");
    match std::env::var_os("ELEVO_AGENT").is_none() && built.is_file() {
        true => built.to_str().unwrap().to_owned(),
        false => agent(),
    }
}

/// Panics if the profile `unprivileged` of nextest selects this test: its filter
/// is by these names.
fn assert_may_need_docker() {
    let is_service = module_path!().starts_with("service::");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    let modules = ["attacks::", "fulldisk::", "warm::"];
    let may = modules.iter().any(|name| test.starts_with(name)) || test.contains("::on_docker::");
    assert!(
        may || !is_service || is_other_binary(),
        "a test that needs Docker belongs into a module `on_docker`: {test}"
    );
}

/// Whether another binary is tested, which has no simulated engine.
fn is_other_binary() -> bool {
    std::env::var_os("ELEVO_SERVER_BINARY").is_some()
}

impl Service {
    /// Starts a server on a simulated engine, with the template `base`.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_bare(settings).with_template().await
    }

    /// Starts a server on a simulated engine, without a template.
    pub(crate) fn start_bare(settings: &[(&str, &str)]) -> Self {
        let mut service = match is_other_binary() {
            true => Self::new_with_docker(settings),
            false => Self::new_simulated(settings),
        };
        service.run();
        service
    }

    /// Starts a server on Docker, with the template `base`.
    pub(crate) async fn with_docker() -> Self {
        Self::with_docker_and(&[]).await
    }

    pub(crate) async fn with_docker_and(settings: &[(&str, &str)]) -> Self {
        let mut service = Self::new_with_docker(settings);
        service.run();
        service.with_template().await
    }

    /// Starts a server on Docker, without a template.
    pub(crate) fn with_docker_bare() -> Self {
        let mut service = Self::new_with_docker(&[]);
        service.run();
        service
    }

    async fn with_template(self) -> Self {
        let body = json!({"name": "base", "image": self.image()});
        self.expect(Method::POST, "/api/v1/templates", Some(body), 201)
            .await;
        self
    }

    /// Starts a server in this process on a simulated engine, without a template,
    /// with settings that the environment cannot express.
    pub(crate) async fn start_here(change: impl FnOnce(&mut Config)) -> Self {
        let engine = SimEngine::new([SIMULATED_IMAGE]);
        let mut service = Self::new_without_engine(&[("AGENT_BINARY", &agent_on_the_host())]);
        service.run_simulated(&engine, change).await;
        service
    }

    /// Starts a server with neither a container engine nor an agent. An older
    /// binary needs both, and gets them.
    pub(crate) fn start_without_engine(settings: &[(&str, &str)]) -> Self {
        let mut service = match is_other_binary() {
            true => Self::new_with_docker(settings),
            false => Self::new_without_engine(settings),
        };
        service.run();
        service
    }

    /// Starts a server in this process on a simulated engine with the image and
    /// the template `base`; the engine continues when the server is stopped.
    pub(crate) async fn start_simulated(change: impl FnOnce(&mut Config)) -> (Self, SimEngine) {
        let service = Self::start_here(change).await.with_template().await;
        let engine = service.simulated().clone();
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
        self.log.collect_here(&config.log);
        let runtime = Arc::new(engine.runtime("sim"));
        // A task of the previous server may still be running; it closes the
        // store when it ends.
        let server =
            until_async(
                "the previous server closes the store",
                async || match Server::start_on(config.clone(), runtime.clone()).await {
                    Err(error) if error.to_string().contains("is being written to") => None,
                    server => Some(server.unwrap()),
                },
            );
        let server = server.await;
        self.url = format!("http://{}", server.addresses().api);
        self.metrics = format!("http://{}", server.addresses().metrics);
        self.here = Some(server);
        self.engine = Engine::Simulated(engine.clone());
        self.let_sandboxes_through();
    }

    /// Stops the server in this process.
    pub(crate) async fn stop_here(&mut self) {
        self.here.take().unwrap().stop().await;
    }

    pub(crate) fn new_without_engine(settings: &[(&str, &str)]) -> Self {
        let mut service = Self::new(Engine::Missing, settings);
        service.set("DOCKER_HOST", NO_ENGINE);
        service.expect_complaint("the container engine does not respond");
        service.expect_complaint("cannot list the containers to clean up");
        service.expect_complaint("cannot delete the unused networks");
        service
    }

    pub(crate) fn new_with_docker(settings: &[(&str, &str)]) -> Self {
        assert_may_need_docker();
        let engine = [("DOCKER_HOST", &*docker_host()), ("AGENT_BINARY", &agent())];
        Self::new(Engine::Docker, &[&engine, settings].concat())
    }

    fn new_simulated(settings: &[(&str, &str)]) -> Self {
        let engine = SimEngine::new([SIMULATED_IMAGE]);
        let mut service = Self::new(Engine::Simulated(engine.clone()), &[]);
        let socket = service.data.with_file_name("engine.sock");
        engine.listen("sim", &socket).unwrap();
        service.set("DOCKER_HOST", NO_ENGINE);
        service.set("AGENT_BINARY", &agent_on_the_host());
        service.set(server_process::ENGINE, socket.to_str().unwrap());
        for (name, value) in settings {
            service.set(name, value);
        }
        service
    }

    fn new(engine: Engine, settings: &[(&str, &str)]) -> Self {
        elevo_server::choose_cryptography();
        let directory = tempfile::Builder::new()
            .prefix("elevo-service-")
            .tempdir()
            .unwrap();
        let data = directory.path().join("data");
        let common = [
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
        ];
        let mut service = Self {
            child: None,
            url: String::new(),
            metrics: String::new(),
            log: Log::new(data.with_file_name("log")),
            data: data.clone(),
            http: reqwest::Client::new(),
            settings: Vec::new(),
            here: None,
            engine,
            database: database_of_the_run(),
            _directory: directory,
        };
        if let Some(url) = service.database.as_ref().map(Database::url) {
            service.set("CATALOG_URL", &url);
        }
        for (name, value) in common.iter().chain(settings) {
            service.set(name, value);
        }
        service
    }

    /// Returns the engine of a server that has a simulated one.
    pub(crate) fn simulated(&self) -> &SimEngine {
        match &self.engine {
            Engine::Simulated(engine) => engine,
            _ => panic!("this server has no simulated engine"),
        }
    }

    /// Returns the image of the template `base`.
    pub(crate) fn image(&self) -> String {
        match &self.engine {
            Engine::Simulated(_) => SIMULATED_IMAGE.to_owned(),
            _ => needed(
                "ELEVO_TEST_IMAGE",
                "`eval \"$(scripts/services env docker)\"`",
            ),
        }
    }

    /// Returns the user of processes in sandboxes.
    pub(crate) fn sandbox_uid(&self) -> u32 {
        let config = Config::read(None, self.settings.clone());
        config.unwrap().sandbox_user.0
    }

    /// Lets the user of simulated sandboxes reach their files. A process of a
    /// simulated container has no mounts: it accesses its files by their path,
    /// which the server keeps private at each start.
    fn let_sandboxes_through(&self) {
        let uid = self.sandbox_uid();
        if uid == rustix::process::geteuid().as_raw() {
            return;
        }
        let data = &self.data;
        let above = data.parent().unwrap();
        for path in [above, data, &data.join("workspaces"), &data.join("run")] {
            let_through(path, uid);
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
        let (server, own) = self.program();
        let mut starting = match command {
            [] => Command::new(server),
            [program, rest @ ..] => {
                let mut starting = Command::new(program);
                starting.args(rest).arg(server);
                starting
            }
        };
        let mut child = starting
            .args(own)
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
        self.log.copy(text, lines);
        self.child = Some(child);
        if matches!(self.engine, Engine::Simulated(_)) {
            self.let_sandboxes_through();
        }
        Ok(())
    }

    /// Returns the server's program, and arguments that it needs.
    fn program(&self) -> (String, Vec<String>) {
        match self.engine {
            Engine::Simulated(_) => {
                let program = std::env::current_exe().unwrap();
                let program = program.to_str().unwrap().to_owned();
                (program, server_process::arguments())
            }
            _ => {
                let built = env!("CARGO_BIN_EXE_workspace-server");
                (under_test("ELEVO_SERVER_BINARY", built), Vec::new())
            }
        }
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

    /// Waits for the server to end by itself because of an error.
    pub(crate) async fn fails(&mut self) {
        let child = self.child.as_mut().unwrap();
        eventually("the server ends", async || {
            child.try_wait().unwrap().is_some()
        })
        .await;
        let status = self.child.take().unwrap().wait().unwrap();
        assert!(!status.success(), "the server ended without an error");
    }

    /// Runs a statement in the catalog behind the server's back. If the server
    /// runs, each waits for the other's lock. The statement has its own thread,
    /// because a server in this process needs the test's thread.
    pub(crate) async fn sql(&self, statement: &str) {
        if let Some(database) = &self.database {
            return database.execute_inside(statement);
        }
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

    /// Returns the errors and warnings in the log that the test does not expect.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.log.complaints()
    }

    /// Expects errors and warnings that contain a text in the log. All others fail
    /// the test when its service is dropped.
    pub(crate) fn expect_complaint(&self, part: &str) {
        self.log.expect(part);
    }

    /// Expects any warnings, for tests whose faults depend on chance.
    pub(crate) fn expect_warnings(&self) {
        self.log.expect("\"level\":\"WARN\"");
    }

    /// Returns whether the log contains a text.
    pub(crate) fn logged(&self, text: &str) -> bool {
        self.log.text().contains(text)
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
        let wish = self.inside(id, json!({"command": command}));
        self.post(&path, wish).await
    }

    /// Returns the request for a command or terminal in a sandbox. On a
    /// simulated engine, replaces `/workspace` in the command and the working
    /// directory by the path of the workspace on the host.
    pub(crate) fn inside(&self, id: &str, mut wish: Value) -> Value {
        let Engine::Simulated(engine) = &self.engine else {
            return wish;
        };
        let workspace = engine.path(id, "/workspace").unwrap();
        let workspace = workspace.to_str().unwrap();
        if wish["cwd"].is_null() {
            wish["cwd"] = json!("/workspace");
        }
        for name in ["command", "cwd"] {
            if let Some(text) = wish[name].as_str() {
                wish[name] = json!(text.replace("/workspace", workspace));
            }
        }
        wish
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
        match &self.engine {
            Engine::Docker => {}
            Engine::Simulated(engine) => return engine.containers(),
            Engine::Missing => return Vec::new(),
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
        docker_at(self.docker_host(), arguments)
    }

    /// Returns the address of the Docker engine that this server uses.
    fn docker_host(&self) -> &str {
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
        self.log.is_whole();
        for container in self.containers() {
            if matches!(self.engine, Engine::Docker) {
                self.docker(&["rm", "-f", &container]);
            }
        }
        for mount in self.mounts().iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
        if std::thread::panicking() {
            let text = self.log.text();
            let lines: Vec<_> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(30)..];
            eprintln!("the server's log ends with:\n{}", last.join("\n"));
            return;
        }
        let complaints = self.complaints();
        assert!(
            complaints.is_empty(),
            "the server logged what the test does not expect:\n{}",
            complaints.join("\n")
        );
    }
}

/// Lets a user traverse a directory, by an entry in its access control list.
/// The server keeps the entry when it restarts.
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
    until_async(what, async || is_so().await.then_some(())).await;
}

/// The events of a stream.
pub(crate) struct Events {
    answer: Response,
    parser: Parser,
}

impl Events {
    pub(crate) fn new(answer: Response) -> Self {
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self {
            answer,
            parser: Parser::default(),
        }
    }

    /// Returns the next event with its id; `None` at the end of the stream or if
    /// it breaks off.
    pub(crate) async fn next(&mut self) -> Option<(u64, Value)> {
        loop {
            while let Some(event) = self.parser.next_event().unwrap() {
                if let Some(id) = event.id {
                    let data = serde_json::from_str(&event.data).unwrap();
                    return Some((id.parse().unwrap(), data));
                }
            }
            let piece = self.answer.chunk().await.ok()??;
            self.parser.add(&piece).unwrap();
        }
    }
}
