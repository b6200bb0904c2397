//! The measured server, and the container engine. Needs root, the engine of `scripts/services`, the
//! agent of `scripts/agent`, and the server binary next to this program.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::peers::{clean_command, time_to_run};

pub(crate) const KEY: &str = "bench-key-0123456789-0123456789-0123456789";

/// A running server.
pub(crate) struct Server {
    child: Child,
    url: String,
    http: reqwest::Client,
    data: PathBuf,
    pub(crate) docker_host: String,
    pub(crate) image: String,
}

fn needed(name: &str, how: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set; {how}"))
}

impl Server {
    /// Starts a server whose data is in the directory `data` of `scratch`, with
    /// additional settings.
    pub(crate) fn start_with(scratch: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let services = "run scripts/services up docker && eval \"$(scripts/services env docker)\"";
        let docker_host = needed("DOCKER_HOST", services)?;
        let image = needed("ELEVO_TEST_IMAGE", services)?;
        let agent = needed("ELEVO_AGENT", "run export ELEVO_AGENT=$(scripts/agent)")?;
        let binary = std::env::current_exe()?.with_file_name("workspace-server");
        ensure!(
            binary.is_file(),
            "no server next to this program; build it: cargo build --release -p elevo-server"
        );
        let data = scratch.join("data");
        let mut child = Command::new(binary)
            // A measure may have filled the store before.
            .arg("--adopt")
            .env_clear()
            .env("PATH", std::env::var("PATH")?)
            .env("DATA_DIR", &data)
            .envs([
                ("API_PORT", "0"),
                ("METRICS_PORT", "0"),
                ("API_KEY", KEY),
                ("RUST_LOG", "warn,elevo_server=info"),
            ])
            .envs([
                ("DOCKER_HOST", docker_host.as_str()),
                ("AGENT_BINARY", &agent),
                ("MAX_SANDBOXES", "1000"),
            ])
            .envs([
                ("DEFAULT_MEMORY", "256m"),
                ("DEFAULT_DISK", "1g"),
                ("POOL_SIZE", "20g"),
                ("MAX_CONCURRENT_CREATIONS", "10"),
            ])
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("it has an output")?);
        let url = listening(&mut lines)?;
        let mut log = File::create(scratch.join("log"))?;
        std::thread::spawn(move || std::io::copy(&mut lines, &mut log));
        // Fails only if a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .pool_max_idle_per_host(128)
            .build()?;
        Ok(Self {
            child,
            url,
            http,
            data,
            docker_host,
            image,
        })
    }

    /// Starts a server with the template `base`.
    pub(crate) async fn with_template(scratch: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let server = Self::start_with(scratch, settings)?;
        let wish = json!({"name": "base", "image": server.image});
        server.post("/api/v1/templates", &wish).await?;
        Ok(server)
    }

    /// Runs a statement on the catalog, as another process would.
    pub(crate) fn sql(&self, statement: &str) -> Result<()> {
        let status = Command::new("sqlite3")
            .args(["-cmd", ".timeout 60000"])
            .arg(self.data.join("catalog.db"))
            .arg(statement)
            .status()?;
        ensure!(status.success(), "sqlite3: {status}");
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.request_as(KEY, method, path)
    }

    /// A request with another key.
    pub(crate) fn request_as(
        &self,
        key: &str,
        method: reqwest::Method,
        path: &str,
    ) -> reqwest::RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(key)
    }

    /// Host and port of the API.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value) -> Result<Value> {
        let asked = self.request_as(key, reqwest::Method::POST, path);
        read(asked.json(body).send().await?).await
    }

    pub(crate) async fn get_as(&self, key: &str, path: &str) -> Result<Value> {
        let asked = self.request_as(key, reqwest::Method::GET, path);
        read(asked.send().await?).await
    }

    pub(crate) async fn delete_as(&self, key: &str, path: &str) -> Result<()> {
        let asked = self.request_as(key, reqwest::Method::DELETE, path);
        read(asked.send().await?).await.map(drop)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.post_as(KEY, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.get_as(KEY, path).await
    }

    /// Creates a sandbox, and waits for the first output of a command in it.
    pub(crate) async fn create(&self) -> Result<String> {
        let made = self
            .post("/api/v1/sandboxes", &json!({"template": "base"}))
            .await?;
        let id = made["id"]
            .as_str()
            .context("the response has no `id`")?
            .to_owned();
        self.run(&id).await?;
        Ok(id)
    }

    /// Runs a command that prints a line.
    pub(crate) async fn run(&self, id: &str) -> Result<()> {
        let path = format!("/api/v1/sandboxes/{id}/process/run");
        let result = self.post(&path, &json!({"command": "echo ready"})).await?;
        ensure!(result["stdout"] == "ready\n", "{result}");
        Ok(())
    }

    pub(crate) async fn delete(&self, ids: &[String]) -> Result<()> {
        for part in ids.chunks(10) {
            let outcome = self
                .post("/api/v1/sandboxes/batch-delete", &json!({"ids": part}))
                .await?;
            ensure!(outcome["failed"] == json!([]), "{outcome}");
        }
        Ok(())
    }

    /// The engine's own command line, on the same socket.
    pub(crate) fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = clean_command("docker");
        command
            .env("DOCKER_HOST", &self.docker_host)
            .args(arguments);
        command
    }

    /// The peer: a bare container.
    pub(crate) fn bare_run(&self) -> Command {
        self.docker(&["run", "--rm", &self.image, "true"])
    }

    /// Times `count` bare containers at once.
    pub(crate) fn bare_runs(&self, count: usize) -> Result<f64> {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..count)
                .map(|_| scope.spawn(|| time_to_run(&mut self.bare_run())))
                .collect();
            runs.into_iter().try_for_each(|run| match run.join() {
                Ok(ran) => ran.map(drop),
                Err(_) => bail!("a thread has panicked"),
            })
        })?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// The process id of a sandbox's agent on this machine.
    pub(crate) fn agent_pid(&self, id: &str) -> Result<u32> {
        let output = self
            .docker(&["inspect", "--format", "{{.State.Pid}}", id])
            .output()?;
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }
}

async fn read(answer: reqwest::Response) -> Result<Value> {
    let status = answer.status();
    let text = answer.text().await?;
    if !status.is_success() {
        bail!("{status}: {text}");
    }
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

fn listening(lines: &mut impl BufRead) -> Result<String> {
    let mut text = String::new();
    loop {
        let before = text.len();
        ensure!(
            lines.read_line(&mut text)? > 0,
            "the server has ended: {text}"
        );
        let line: Value = serde_json::from_str(&text[before..]).unwrap_or_default();
        if line["message"] == "listening" {
            let address = line["api"].as_str().context("it has an address")?;
            return Ok(format!("http://{address}"));
        }
    }
}

impl Server {
    /// Stops the server, so that it deletes its network. Kills it after a minute.
    fn end(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        for _ in 0..600 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        let filter = ["ps", "-aq", "--filter", "label=elevo.server"];
        let Ok(all) = self.docker(&filter).output() else {
            return;
        };
        for id in String::from_utf8_lossy(&all.stdout).lines() {
            let mounts = self
                .docker(&["inspect", "--format", "{{json .Mounts}}", id])
                .output();
            let is_ours = mounts.is_ok_and(|mounts| {
                String::from_utf8_lossy(&mounts.stdout).contains(self.data.to_str().unwrap_or("?"))
            });
            if is_ours {
                let _ = self.docker(&["rm", "-f", id]).output();
            }
        }
    }
}

/// Proportional memory of a process in bytes: shared pages count by its share.
pub(crate) fn proportional(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .context("it has a size")?;
    Ok(kib.trim().parse::<f64>()? * 1024.0)
}
