use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::Socket;

const PROGRAM: &str = "chromium-headless-shell";

/// Maximum time of a call.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser, which the test controls by the DevTools protocol.
pub(super) struct Chromium {
    child: Child,
    socket: Mutex<Socket>,
    last: AtomicU64,
    /// The profile, deleted at the end.
    _profile: tempfile::TempDir,
}

/// A page in a browser.
pub(super) struct Page<'a> {
    browser: &'a Chromium,
    session: Value,
}

impl Chromium {
    pub(super) async fn start(options: &[&str]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let child = Command::new(PROGRAM)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--disable-background-networking"])
            .args(["--remote-debugging-port=0", "--remote-allow-origins=*"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(options)
            .arg("about:blank")
            .env("HOME", profile.path())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let mut child = child.unwrap_or_else(|error| {
            panic!("{PROGRAM} does not start: {error}; install the package of this name")
        });
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut output = String::new();
        let url = loop {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
            let line = line.expect("the browser starts").unwrap();
            let line = line.unwrap_or_else(|| panic!("{PROGRAM} has ended: {output}"));
            if let Some(url) = line.strip_prefix("DevTools listening on ") {
                break url.to_owned();
            }
            output += &line;
        };
        // A full pipe would block the browser.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        Self {
            child,
            socket: Mutex::new(socket),
            last: AtomicU64::new(0),
            _profile: profile,
        }
    }

    async fn call(&self, session: &Value, method: &str, parameters: Value) -> Value {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut request = json!({"id": id, "method": method, "params": parameters});
        if !session.is_null() {
            request["sessionId"] = session.clone();
        }
        let mut socket = self.socket.lock().await;
        let text = request.to_string().into();
        socket.send(Message::Text(text)).await.unwrap();
        let answering = async {
            loop {
                let message = socket.next().await.expect("a browser").unwrap();
                let Message::Text(text) = message else {
                    continue;
                };
                let message: Value = serde_json::from_str(&text).unwrap();
                if message["id"] == id {
                    assert!(message["error"].is_null(), "{method}: {message}");
                    return message["result"].clone();
                }
            }
        };
        let answer = tokio::time::timeout(PATIENCE, answering).await;
        answer.unwrap_or_else(|_| panic!("no response to {request}"))
    }

    /// Opens a page, and waits until its script has run.
    pub(super) async fn open(&self, url: &str) -> Page<'_> {
        let target = self
            .call(&Value::Null, "Target.createTarget", json!({"url": url}))
            .await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self
            .call(&Value::Null, "Target.attachToTarget", attach)
            .await;
        let page = Page {
            browser: self,
            session: attached["sessionId"].clone(),
        };
        crate::harness::eventually("the page is loaded", async || {
            let is_loaded = "document.readyState === 'complete' && typeof opens === 'function'";
            page.run(is_loaded).await == true
        })
        .await;
        page
    }

    pub(super) async fn end(mut self) {
        // The browser may close the connection before it responds.
        let close = json!({"id": 0, "method": "Browser.close"}).to_string();
        let _ = self
            .socket
            .get_mut()
            .send(Message::Text(close.into()))
            .await;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("the browser ends").unwrap();
    }
}

impl Page<'_> {
    /// Evaluates an expression in the page. Waits for its promise.
    pub(super) async fn run(&self, expression: &str) -> Value {
        let wish = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true
        });
        let result = self
            .browser
            .call(&self.session, "Runtime.evaluate", wish)
            .await;
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }
}
