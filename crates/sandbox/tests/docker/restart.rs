//! Tests that sandboxes keep running while their engine restarts.

use std::fs;

use elevo_sandbox::{ContainerState, Mount, SandboxRuntime};
use elevo_testkit::docker::Engine;
use elevo_testkit::wait::until_async;

use crate::support::{Installation, UID};

#[tokio::test]
async fn a_sandbox_keeps_running_while_its_engine_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path(), "tiny", true);
    let shared = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(shared.path(), Some(UID), Some(UID)).unwrap();
    let count = || {
        fs::read_to_string(shared.path().join("count"))
            .unwrap_or_default()
            .len()
    };
    let counts_on = async |what| {
        let before = count();
        until_async(what, async || (count() > before).then_some(())).await;
    };

    let own = Installation::at(&engine.host()).await;
    assert!(own.runtime.check().await.unwrap().live_restore);
    let mut spec = own.spec("while sleep 0.1; do printf x >>/w/count; echo tick; done");
    spec.mounts = vec![Mount::writable(shared.path(), "/w")];
    let id = own.start(&spec).await;
    let pid = own.status(&id).await.pid;
    counts_on("it counts").await;

    engine.stop();
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

    engine.start_again();
    let status = own.status(&id).await;
    assert_eq!(status.state, ContainerState::Running);
    assert_eq!(status.pid, pid);
    counts_on("it counts under the new engine").await;
    let written = own.logs(&id).await.len();
    until_async("its output is kept again", async || {
        (own.logs(&id).await.len() > written).then_some(())
    })
    .await;
    own.clean_up().await;
}
