//! Hostile programs in a sandbox. Each is stopped, its neighbours keep running
//! with their files unchanged, and the server logs the reason where it is the one
//! that denies. `SECURITY.md` lists the boundary that each test proves.
//!
//! Attacks that need system calls are in `attacks/probe.c`, compiled here and
//! written into the attacker's workspace; the rest is shell.

mod elsewhere;
mod exhaustion;
mod files;
mod kernel;
mod network;
mod pool;
mod tokens;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, docker};

/// Maximum time for a neighbour to respond.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file content of a neighbour that no one else may change.
const TREASURE: &str = "mine alone";

/// The runtime of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    /// The engine's default, on the machine's kernel.
    Runc,
    /// gVisor, with a separate kernel.
    Runsc,
}

/// The same attack in a sandbox of each runtime.
macro_rules! in_each_runtime {
    ($($attack:ident),+ $(,)?) => {
        $(mod $attack {
            use crate::attacks::Runtime;

            #[tokio::test]
            async fn runc() {
                super::$attack(Runtime::Runc).await;
            }

            #[tokio::test]
            async fn runsc() {
                super::$attack(Runtime::Runsc).await;
            }
        })+
    };
}
use in_each_runtime;

/// A server with an attacker and a neighbour.
struct Arena {
    service: Service,
    attacker: String,
    neighbour: String,
}

impl Arena {
    async fn new(runtime: Runtime) -> Self {
        Self::with(runtime, json!({})).await
    }

    /// Starts with further parameters for the attacker's sandbox.
    async fn with(runtime: Runtime, wish: Value) -> Self {
        let service = Service::with_docker_and(&[("RUNTIMES", "runsc")]).await;
        service.expect_warnings();
        let neighbour = create(&service, runtime, json!({"network": wish["network"]})).await;
        let keep = format!("echo '{TREASURE}' | tee file ~/file");
        service.output_of(&neighbour, &keep).await;
        let attacker = create(&service, runtime, wish).await;
        let arena = Self {
            service,
            attacker,
            neighbour,
        };
        arena.arm(&arena.attacker).await;
        arena
    }

    /// Writes the probe into a sandbox.
    async fn arm(&self, id: &str) {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(probe().len() as u64);
        builder
            .append_data(&mut header, "probe", probe())
            .expect("memory has room for it");
        let path = format!("/api/v1/sandboxes/{id}/archive?path=");
        let body = builder.into_inner().expect("memory has room for it");
        let sent = self.service.request(Method::PUT, &path).body(body);
        let sent = sent.send().await.expect("the server answers");
        assert_eq!(sent.status(), 204);
    }

    /// Returns the output of an attack, which may fail.
    async fn attack(&self, command: &str) -> String {
        let result = self.service.run_in(&self.attacker, command).await;
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        assert!(result["exitCode"].is_i64(), "{command}: {result}");
        text("stdout") + &text("stderr")
    }

    /// Starts an attack in the background; returns its id.
    async fn begin(&self, command: &str) -> String {
        let path = format!("/api/v1/sandboxes/{}/process/run", self.attacker);
        let body = json!({"command": command, "background": true, "openStdin": true});
        let started = self.service.post(&path, body).await;
        let id = started["commandId"].as_str();
        id.unwrap_or_else(|| panic!("{started}")).to_owned()
    }

    /// Returns the attempts of the probe and their outcomes.
    async fn probed(&self, what: &str) -> BTreeMap<String, String> {
        let text = self.attack(&format!("/workspace/probe {what}")).await;
        let pair = |line: &str| {
            let (name, result) = line.split_once(' ')?;
            Some((name.to_owned(), result.to_owned()))
        };
        text.lines().filter_map(pair).collect()
    }

    /// Checks that an attack did no harm.
    async fn unharmed(&self) {
        let look = self.service.output_of(&self.neighbour, "cat file ~/file");
        let seen = tokio::time::timeout(PATIENCE, look).await;
        let seen = seen.expect("the neighbour answers in time");
        assert_eq!(seen, format!("{TREASURE}\n{TREASURE}\n"));
        let write = "echo x > new && rm new && sh -c 'echo y' | cat";
        assert_eq!(
            self.service.output_of(&self.neighbour, write).await,
            "y\n",
            "it can write and start processes"
        );
        let ready = reqwest::get(format!("{}/ready", self.service.metrics)).await;
        let ready = ready.expect("the server answers").status();
        assert_eq!(ready, 200, "the server can do its work");
        assert_eq!(self.service.complaints(), Vec::<String>::new());
    }

    /// Returns the lines of the server's log that contain this text.
    fn logged(&self, words: &str) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(words));
        lines.map(str::to_owned).collect()
    }

    fn log(&self) -> String {
        let log = self.service.data.with_file_name("log");
        std::fs::read_to_string(log).unwrap_or_default()
    }
}

/// Creates a sandbox with a runtime.
async fn create(service: &Service, runtime: Runtime, mut wish: Value) -> String {
    wish["template"] = json!("base");
    if runtime == Runtime::Runsc {
        wish["runtime"] = json!("runsc");
    }
    let made = service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 201)
        .await;
    assert_eq!(made["state"], "running", "{made}");
    made["id"].as_str().expect("it has an id").to_owned()
}

/// Returns the path of a sandbox's workspace in the engine.
fn workspace(id: &str) -> std::path::PathBuf {
    let format = "{{range .Mounts}}{{if eq .Destination \"/workspace\"}}{{.Source}}{{end}}{{end}}";
    docker(&["inspect", "--format", format, id]).trim().into()
}

/// Returns the token of a sandbox, which only the host can see.
fn token(id: &str) -> String {
    let format = "{{range .Config.Env}}{{println .}}{{end}}";
    let variables = docker(&["inspect", "--format", format, id]);
    let mut variables = variables.lines();
    let token = variables.find_map(|line| line.strip_prefix("SANDBOX_TOKEN="));
    token.expect("a sandbox has a token").to_owned()
}

/// The hostile program, compiled once.
fn probe() -> &'static [u8] {
    static PROBE: OnceLock<Vec<u8>> = OnceLock::new();
    PROBE.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/service/attacks/probe.c");
        let directory = tempfile::tempdir().expect("there is room for files");
        let out = directory.path().join("probe");
        let built = Command::new("gcc")
            .args(["-static", "-O1", "-Wall", "-Werror", "-o"])
            .args([out.as_os_str(), source.as_ref()])
            .output()
            .expect("gcc runs: install build-essential");
        assert!(built.status.success(), "{built:?}");
        std::fs::read(out).expect("gcc has made it")
    })
}
