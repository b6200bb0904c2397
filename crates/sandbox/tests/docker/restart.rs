//! What becomes of sandboxes while their engine is away.

use std::fs;
use std::path::Path;
use std::process::Command;

use elevo_sandbox::{ContainerState, Mount, SandboxRuntime};

use crate::support::{Installation, UID, eventually};

/// An engine of its own, which can be stopped without harm to other tests.
struct Engine {
    directory: tempfile::TempDir,
}

impl Engine {
    fn start() -> Self {
        let this = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        this.services("up");
        this
    }

    fn services(&self, what: &str) {
        assert!(self.run(what), "scripts/services {what}");
    }

    fn run(&self, what: &str) -> bool {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services");
        Command::new(script)
            .args([what, "docker"])
            .env("ELEVO_SERVICES", self.directory.path())
            .env("ELEVO_DOCKER_LIVE_RESTORE", "1")
            .env("ELEVO_DOCKER_IMAGES", "tiny")
            .env("ELEVO_DOCKER_APART", "1")
            .status()
            .is_ok_and(|status| status.success())
    }

    fn host(&self) -> String {
        format!(
            "unix://{}/docker/docker.sock",
            self.directory.path().display()
        )
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let down = self.run("down");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let left = mounts.contains(self.directory.path().to_str().unwrap());
        if !std::thread::panicking() {
            assert!(down && !left, "{mounts}");
        }
    }
}

#[tokio::test]
async fn a_sandbox_goes_on_while_its_engine_is_restarted() {
    let engine = Engine::start();
    let shared = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(shared.path(), Some(UID), Some(UID)).unwrap();
    let count = || {
        fs::read_to_string(shared.path().join("count"))
            .unwrap_or_default()
            .len()
    };
    let counts_on = async |what| {
        let before = count();
        eventually(what, async || (count() > before).then_some(())).await;
    };

    let own = Installation::at(&engine.host()).await;
    assert!(own.runtime.check().await.unwrap().live_restore);
    let mut spec = own.spec("while sleep 0.1; do printf x >>/w/count; echo tick; done");
    spec.mounts = vec![Mount::writable(shared.path(), "/w")];
    let id = own.start(&spec).await;
    let pid = own.status(&id).await.pid;
    counts_on("it counts").await;

    engine.services("stop");
    let error = own.runtime.status(&id).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(
        own.runtime
            .create(&own.spec("true"))
            .await
            .unwrap_err()
            .is_retryable()
    );
    counts_on("it counts without an engine").await;

    engine.services("up");
    let status = own.status(&id).await;
    assert_eq!(status.state, ContainerState::Running);
    assert_eq!(status.pid, pid);
    counts_on("it counts under the new engine").await;
    let written = own.logs(&id).await.len();
    eventually("its output is kept again", async || {
        (own.logs(&id).await.len() > written).then_some(())
    })
    .await;
    own.clean_up().await;
}
