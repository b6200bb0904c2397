//! A server and an agent that are connected by a socket in a temporary
//! directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use elevo_agent_link::{
    AgentLink, AgentLinks, Authenticate, Command, Event, Exit, LinkError, Output, Settings, Stream,
};
use elevo_testkit::wait::until_async;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const SANDBOX: &str = "sbx-test";
pub(crate) const TOKEN: &str = "token-of-the-test";

/// Maximum time of one step of a test; long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Accepts one token, and counts the others.
#[derive(Default)]
struct OneToken {
    wrong: AtomicUsize,
}

#[async_trait::async_trait]
impl Authenticate for OneToken {
    async fn is_right(&self, sandbox: &str, token: &str) -> bool {
        let is_right = sandbox == SANDBOX && token == TOKEN;
        self.wrong
            .fetch_add(usize::from(!is_right), Ordering::Relaxed);
        is_right
    }
}

/// A server that listens on a socket.
pub(crate) struct Server {
    pub(crate) links: AgentLinks,
    tokens: Arc<OneToken>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) fn start(socket: &Path) -> Self {
        Self::with(socket, Settings::default())
    }

    pub(crate) fn with(socket: &Path, settings: Settings) -> Self {
        let tokens = Arc::new(OneToken::default());
        let links = AgentLinks::new(tokens.clone(), settings);
        let (stop, stopped) = oneshot::channel::<()>();
        let (serving, socket) = (links.clone(), socket.to_owned());
        let served = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serving.serve_unix(&socket, stopped).await
        });
        Self {
            links,
            tokens,
            stop,
            served,
        }
    }

    /// Waits until the server has checked another two wrong tokens, and so has
    /// rejected the first of them.
    pub(crate) async fn rejects_more_tokens(&self) {
        let count = || self.tokens.wrong.load(Ordering::Relaxed);
        let before = count();
        until("the server rejects tokens", || count() >= before + 2).await;
    }

    pub(crate) async fn link(&self) -> AgentLink {
        within(self.links.connected(SANDBOX)).await
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        within(self.served).await.unwrap().unwrap();
    }
}

/// An agent, killed when dropped.
pub(crate) struct Agent(Child);

impl Agent {
    pub(crate) fn start(socket: &Path) -> Self {
        Self::start_as(socket, TOKEN, &[])
    }

    /// Starts an agent through the program `wrapper`.
    pub(crate) fn start_as(socket: &Path, token: &str, wrapper: &[&str]) -> Self {
        let binary = env!("CARGO_BIN_EXE_workspace-agent");
        let mut words = wrapper.iter().copied().chain([binary]);
        let child = Process::new(words.next().unwrap())
            .args(words)
            .env("WORKSPACE_SERVER", format!("unix://{}", socket.display()))
            .env("SANDBOX_ID", SANDBOX)
            .env("SANDBOX_TOKEN", token)
            .env("AGENT_LOG_LEVEL", "debug")
            .stdin(Stdio::null())
            // A test reads the agent's open files, none of which may be a
            // regular file.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// The resident memory of the agent, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS"));
        let kilobytes: String = line.unwrap().chars().filter(char::is_ascii_digit).collect();
        kilobytes.parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The agent may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server, a connected agent, and a directory for both.
pub(crate) struct Pair {
    pub(crate) link: AgentLink,
    pub(crate) agent: Agent,
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let server = Server::with(&socket, settings);
        let agent = Agent::start(&socket);
        let link = server.link().await;
        Self {
            link,
            agent,
            server,
            directory,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("agent.sock")
    }

    /// Returns a command that runs in the temporary directory and whose output
    /// is read.
    pub(crate) fn command(&self, id: &str, command: &str) -> Command {
        Command {
            id: id.to_owned(),
            command: command.to_owned(),
            cwd: Some(self.directory.path().to_str().unwrap().to_owned()),
            read: true,
            ..Command::default()
        }
    }

    pub(crate) async fn start_command(&self, command: Command) -> Output {
        let output = within(self.link.run(command)).await.unwrap();
        output.unwrap()
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, command: &str) -> Finished {
        let id = format!("run-{}", self.link.processes().len());
        let mut output = self.start_command(self.command(&id, command)).await;
        finish(&mut output).await
    }
}

/// The output of a command, and its end.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
}

pub(crate) async fn finish(output: &mut Output) -> Finished {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match within(output.next()).await.unwrap() {
            Event::Data {
                stream: Stream::Stderr,
                data,
                ..
            } => stderr.extend_from_slice(&data),
            Event::Data { data, .. } => stdout.extend_from_slice(&data),
            Event::Gap { from, to } => panic!("a gap from {from} to {to}"),
            Event::Exit(exit) => {
                assert_eq!(output.next().await, Err(LinkError::Ended));
                return Finished {
                    stdout: String::from_utf8_lossy(&stdout).into_owned(),
                    stderr: String::from_utf8_lossy(&stderr).into_owned(),
                    exit,
                };
            }
        }
    }
}

/// Reads until the output contains a text. Returns all output so far.
pub(crate) async fn read_until(output: &mut Output, text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        match within(output.next()).await {
            Ok(Event::Data { data, .. }) => all.push_str(&String::from_utf8_lossy(&data)),
            other => panic!("{other:?} before {text:?}; there was {all:?}"),
        }
    }
    all
}

pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Fails instead of waiting forever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("this took too long")
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    until_async(what, async || is_so().then_some(())).await;
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
