//! Runs the conformance suite on the simulated runtime, in this process and
//! through a socket, and tests the faults that can be injected into it.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::sync::Arc;

use elevo_sandbox::conformance::Subject;
use elevo_sandbox::sim::{Call, SimEngine};
use elevo_sandbox::{ContainerId, ContainerState, Error, LogsQuery, SandboxRuntime};
use futures::FutureExt;

const IMAGE: &str = "sim/base:1";

fn subject(engine: &SimEngine) -> Arc<Subject> {
    Arc::new(Subject {
        runtime: Arc::new(engine.runtime("own")),
        other: Arc::new(engine.runtime("other")),
        image: IMAGE.to_owned(),
        name: "sim".to_owned(),
    })
}

fn with_subject<T: Future<Output = ()>>(check: impl FnOnce(Arc<Subject>) -> T) {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let engine = SimEngine::new([IMAGE]);
    tokio.block_on(check(subject(&engine)));
}

elevo_sandbox::conformance_tests!(with_subject);

/// The same suite through the socket that a server in another process uses.
mod at_a_socket {
    use elevo_sandbox::sim::RemoteRuntime;

    use super::*;

    fn with_subject<T: Future<Output = ()>>(check: impl FnOnce(Arc<Subject>) -> T) {
        let directory = tempfile::tempdir().unwrap();
        let engine = SimEngine::new([IMAGE]);
        let runtime = |server: &str| {
            let socket = directory.path().join(server);
            engine.listen(server, &socket).unwrap();
            Arc::new(RemoteRuntime::new(socket))
        };
        let subject = Subject {
            runtime: runtime("own"),
            other: runtime("other"),
            image: IMAGE.to_owned(),
            name: "socket".to_owned(),
        };
        let tokio = tokio::runtime::Runtime::new().unwrap();
        tokio.block_on(check(Arc::new(subject)));
    }

    elevo_sandbox::conformance_tests!(with_subject);

    #[tokio::test]
    async fn containers_outlive_the_process_that_started_them() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("engine");
        let engine = SimEngine::new([IMAGE]);
        engine.listen("own", &socket).unwrap();
        // A thread with a separate Tokio runtime stands for the other process.
        let id = std::thread::spawn({
            let socket = socket.clone();
            move || {
                let tokio = tokio::runtime::Runtime::new().unwrap();
                tokio.block_on(async {
                    let subject = Subject {
                        runtime: Arc::new(RemoteRuntime::new(&socket)),
                        other: Arc::new(RemoteRuntime::new(&socket)),
                        image: IMAGE.to_owned(),
                        name: "outlives".to_owned(),
                    };
                    started(&subject, "sleep 0.3; echo late; exit 3").await.1
                })
            }
        });
        let id = id.join().unwrap();
        let mut own = subject(&engine);
        let runtime = Arc::new(RemoteRuntime::new(&socket));
        Arc::get_mut(&mut own).unwrap().runtime = runtime;
        assert_eq!(own.ended(&id).await.exit_code, Some(3));
        let query = LogsQuery {
            tail: None,
            since: None,
            until: None,
            limit: 100,
        };
        let logs = own.runtime.logs(&id, &query).await.unwrap();
        assert_eq!(&logs.bytes[..], b"late\n");
    }

    #[tokio::test]
    async fn an_engine_that_is_gone_is_unreachable() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("engine");
        let engine = SimEngine::new([IMAGE]);
        engine.listen("own", &socket).unwrap();
        let runtime: Arc<dyn SandboxRuntime> = Arc::new(RemoteRuntime::new(&socket));
        runtime.check().await.unwrap();
        drop(engine);
        let error = runtime.check().await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }
}

async fn started(own: &Subject, script: &str) -> (String, ContainerId) {
    let spec = own.spec(script);
    let id = own.runtime.create(&spec).await.unwrap();
    own.runtime.start(&id).await.unwrap();
    (spec.sandbox, id)
}

#[tokio::test]
async fn an_injected_fault_fails_the_requested_number_of_calls() {
    let engine = SimEngine::new([IMAGE]);
    let own = subject(&engine);
    let (name, id) = started(&own, "sleep 1000").await;
    engine.fail(Call::Remove, &name, 2);
    for _ in 0..2 {
        let error = own.runtime.remove(&id).await.unwrap_err();
        assert!(matches!(error, Error::Failed { .. }), "{error}");
    }
    own.runtime.remove(&id).await.unwrap();
    assert!(engine.containers().is_empty());
}

#[tokio::test]
async fn an_engine_that_is_down_keeps_its_containers() {
    let engine = SimEngine::new([IMAGE]);
    let own = subject(&engine);
    let (_, id) = started(&own, "sleep 1000").await;
    engine.set_down(true);
    let error = own.runtime.list().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    engine.set_down(false);
    let status = own.runtime.status(&id).await.unwrap().unwrap();
    assert_eq!(status.state, ContainerState::Running);
}

#[tokio::test]
async fn a_held_call_waits_until_it_is_released() {
    let engine = SimEngine::new([IMAGE]);
    let own = subject(&engine);
    let id = own.runtime.create(&own.spec("sleep 1000")).await.unwrap();
    let held = engine.hold(Call::Start);
    let mut starting = own.runtime.start(&id);
    assert!((&mut starting).now_or_never().is_none());
    let status = own.runtime.status(&id).await.unwrap().unwrap();
    assert_eq!(status.state, ContainerState::Created);
    drop(held);
    starting.await.unwrap();
    assert!(engine.pid(id.as_str()).is_some());
}

#[tokio::test]
async fn a_container_can_die_or_vanish() {
    let engine = SimEngine::new([IMAGE]);
    let own = subject(&engine);
    let (name, id) = started(&own, "sleep 1000").await;
    engine.end(&name, true).await;
    let status = own.runtime.status(&id).await.unwrap().unwrap();
    assert_eq!(status.state, ContainerState::Exited);
    assert!(status.oom_killed);
    engine.vanish(&name).await;
    assert_eq!(own.runtime.status(&id).await.unwrap(), None);
}

#[tokio::test]
async fn converts_a_path_in_a_mount_to_a_path_on_the_host() {
    let engine = SimEngine::new([IMAGE]);
    let own = subject(&engine);
    let directory = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let mut spec = own.spec("echo \"$WHERE\" > made");
    spec.mounts = vec![elevo_sandbox::Mount::writable(
        directory.path(),
        "/workspace",
    )];
    spec.working_dir = "/workspace".to_owned();
    spec.env = [("WHERE".to_owned(), "unix:///workspace/a".to_owned())].into();
    let id = own.runtime.create(&spec).await.unwrap();
    own.runtime.start(&id).await.unwrap();
    let made = directory.path().join("made");
    own.ended(&id).await;
    let text = std::fs::read_to_string(made).unwrap();
    assert_eq!(text, format!("unix://{}/a\n", directory.path().display()));
}
