//! Promises 8 to 11: starting, stopping, watching.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use elevo_core::Timestamp;
use elevo_sandbox::{
    ContainerId, ContainerState, DockerRuntime, DockerSettings, Error, LogsQuery, SandboxRuntime,
};
use elevo_testkit::docker;

use crate::support::{Installation, eventually, with_installation};

#[test]
fn every_step_can_be_repeated() {
    with_installation(async |own| {
        let runtime = &own.runtime;
        let spec = own.spec("sleep 1000");
        let id = runtime.create(&spec).await.unwrap();
        assert_eq!(own.status(&id).await.state, ContainerState::Created);
        runtime.kill(&id).await.unwrap();

        runtime.start(&id).await.unwrap();
        let pid = own.status(&id).await.pid.unwrap();
        runtime.start(&id).await.unwrap();
        assert_eq!(
            own.status(&id).await.pid,
            Some(pid),
            "still the same process"
        );

        runtime.kill(&id).await.unwrap();
        let status = own.status(&id).await;
        assert_eq!(status.state, ContainerState::Exited);
        assert_eq!(status.exit_code, Some(137));
        runtime.kill(&id).await.unwrap();

        runtime.start(&id).await.unwrap();
        assert_eq!(own.status(&id).await.state, ContainerState::Running);

        runtime.remove(&id).await.unwrap();
        assert_eq!(runtime.status(&id).await.unwrap(), None);
        runtime.remove(&id).await.unwrap();
        runtime.kill(&id).await.unwrap();
        let error = runtime.start(&id).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchContainer { .. }), "{error}");
    });
}

#[test]
fn a_container_is_also_found_by_the_name_of_its_sandbox() {
    with_installation(async |own| {
        let spec = own.spec("sleep 1000");
        own.start(&spec).await;
        let name = ContainerId::new(&spec.sandbox).unwrap();
        assert_eq!(own.status(&name).await.state, ContainerState::Running);
        own.runtime.remove(&name).await.unwrap();
        assert_eq!(own.runtime.list().await.unwrap(), []);
    });
}

#[test]
fn a_name_that_is_taken_is_a_conflict() {
    with_installation(async |own| {
        let spec = own.spec("true");
        own.runtime.create(&spec).await.unwrap();
        let error = own.runtime.create(&spec).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
    });
}

#[test]
fn two_who_remove_the_same_container_both_find_it_gone() {
    with_installation(async |own| {
        let id = own.start(&own.spec("sleep 1000")).await;
        let remove = || {
            let (own, id) = (own.clone(), id.clone());
            tokio::spawn(async move {
                own.runtime.remove(&id).await.unwrap();
                assert_eq!(own.runtime.status(&id).await.unwrap(), None);
            })
        };
        let removals = [remove(), remove(), remove()];
        for removal in removals {
            removal.await.unwrap();
        }
    });
}

#[test]
fn a_list_shows_what_this_installation_made_and_nothing_else() {
    with_installation(async |own| {
        let other = Installation::new().await;
        let ours = own.spec("sleep 1000");
        let id = own.start(&ours).await;
        other.start(&other.spec("sleep 1000")).await;
        let listed = own.runtime.list().await.unwrap();
        other.clean_up().await;

        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0].sandbox, ours.sandbox);
        assert_eq!(listed[0].id, id);
        assert_eq!(listed[0].state, ContainerState::Running);
    });
}

#[test]
fn a_command_that_the_image_lacks_is_told_at_the_start() {
    with_installation(async |own| {
        for command in ["/no/such/command", "/etc/passwd"] {
            let mut spec = own.spec("");
            spec.command = vec![command.to_owned()];
            let id = own.runtime.create(&spec).await.unwrap();
            let error = own.runtime.start(&id).await.unwrap_err();
            assert!(matches!(error, Error::NotRunnable { .. }), "{error:?}");
            assert!(error.to_string().contains(command), "{error}");
            let state = own.status(&id).await.state;
            assert_ne!(state, ContainerState::Running);
        }
    });
}

#[test]
fn logs_have_both_streams_and_a_tail() {
    with_installation(async |own| {
        let id = own
            .start(&own.spec("echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three"))
            .await;
        own.ended(&id).await;
        assert_eq!(own.logs(&id).await, "one\ntwo\nthree\n");
        let query = LogsQuery {
            tail: Some(2),
            since: None,
            until: None,
            limit: 1000,
        };
        let logs = own.runtime.logs(&id, &query).await.unwrap();
        assert_eq!(&logs.bytes[..], b"two\nthree\n");
        assert!(!logs.truncated);
    });
}

#[test]
fn logs_begin_and_end_at_a_time() {
    with_installation(async |own| {
        let id = own.start(&own.spec("echo early; sleep 3; echo late")).await;
        own.wrote(&id, "early").await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = Timestamp::new(now.as_secs().cast_signed(), 0);
        own.ended(&id).await;
        let part = async |since, until| {
            let query = LogsQuery {
                tail: None,
                since,
                until,
                limit: 1000,
            };
            own.runtime.logs(&id, &query).await.unwrap().bytes
        };
        assert_eq!(&part(now, None).await[..], b"late\n");
        assert_eq!(&part(None, now).await[..], b"early\n");
    });
}

#[test]
fn stats_tell_what_a_sandbox_uses() {
    with_installation(async |own| {
        let script = "dd if=/dev/zero of=/tmp/x bs=1M count=5 2>/dev/null; echo filled; \
                      sleep 1000 & while :; do :; done";
        let id = own.start(&own.spec(script)).await;
        own.wrote(&id, "filled").await;
        let stats = own.runtime.stats(&id).await.unwrap();
        assert!(stats.cpu_percent > 1.0, "{stats:?}");
        assert!(stats.memory_usage > 5 << 20, "{stats:?}");
        assert_eq!(stats.memory_limit, 64 << 20);
        assert_eq!(stats.pids, 2);
        assert_eq!((stats.rx_bytes, stats.tx_bytes), (0, 0));

        own.runtime.remove(&id).await.unwrap();
        let error = own.runtime.stats(&id).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchContainer { .. }), "{error}");
    });
}

#[test]
fn a_frozen_sandbox_stands_still_and_a_thawed_one_goes_on() {
    with_installation(async |own| {
        let script = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done";
        let id = own.start(&own.spec(script)).await;
        own.wrote(&id, "3\n").await;
        own.runtime.freeze(&id).await.unwrap();
        own.runtime.freeze(&id).await.unwrap();
        assert_eq!(own.status(&id).await.state, ContainerState::Frozen);
        let listed = own.runtime.list().await.unwrap();
        assert_eq!(listed[0].state, ContainerState::Frozen);

        let before = own.logs(&id).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(own.logs(&id).await, before);

        own.runtime.thaw(&id).await.unwrap();
        own.runtime.thaw(&id).await.unwrap();
        eventually("it goes on", async || {
            (own.logs(&id).await.len() > before.len()).then_some(())
        })
        .await;
    });
}

#[test]
fn a_frozen_sandbox_can_be_started_killed_and_removed() {
    with_installation(async |own| {
        let id = own.start(&own.spec("sleep 1000")).await;
        own.runtime.freeze(&id).await.unwrap();
        own.runtime.start(&id).await.unwrap();
        assert_eq!(own.status(&id).await.state, ContainerState::Running);

        own.runtime.freeze(&id).await.unwrap();
        own.runtime.kill(&id).await.unwrap();
        assert_eq!(own.status(&id).await.state, ContainerState::Exited);
        let error = own.runtime.freeze(&id).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error:?}");

        own.runtime.start(&id).await.unwrap();
        own.runtime.freeze(&id).await.unwrap();
        own.runtime.remove(&id).await.unwrap();
        assert_eq!(own.runtime.status(&id).await.unwrap(), None);
    });
}

#[test]
fn the_engine_tells_what_it_is() {
    with_installation(async |own| {
        let info = own.runtime.check().await.unwrap();
        assert!(info.engine.starts_with("docker "), "{info:?}");
        assert!(info.runtimes.contains(&"runc".to_owned()), "{info:?}");
        assert!(info.cpus > 0 && info.memory > 0, "{info:?}");
        assert!([1, 2].contains(&info.cgroup_version), "{info:?}");
        assert!(!info.storage_driver.is_empty(), "{info:?}");
        assert!(!info.security_options.is_empty(), "{info:?}");
        assert_eq!(info.internet, None);
    });
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_unreachable() {
    let directory = tempfile::tempdir().unwrap();
    let settings = |socket: &str| DockerSettings {
        host: format!("unix://{}/{socket}", directory.path().display()),
        server: "test".to_owned(),
        network: "elevo-test".to_owned(),
    };
    let absent = DockerRuntime::connect(settings("absent"))
        .await
        .unwrap_err();
    assert!(absent.is_retryable(), "{absent:?}");

    let path = directory.path().join("deserted");
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    let deserted = DockerRuntime::connect(settings("deserted"))
        .await
        .unwrap_err();
    assert!(deserted.is_retryable(), "{deserted:?}");
}

#[tokio::test]
async fn settings_that_would_reach_into_what_is_not_ours_are_refused() {
    let refused = async |host: &str, server: &str, network: &str| {
        let settings = DockerSettings {
            host: host.to_owned(),
            server: server.to_owned(),
            network: network.to_owned(),
        };
        match DockerRuntime::connect(settings).await {
            Err(Error::Refused { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    };
    let host = docker::host();
    assert_eq!(refused("tcp://127.0.0.1:1", "a", "elevo-a").await, "host");
    assert_eq!(refused(&host, "a b", "elevo-a").await, "server");
    assert_eq!(refused(&host, "", "elevo-a").await, "server");
    for network in ["host", "bridge", "none", "default", "", "a/b"] {
        assert_eq!(refused(&host, "a", network).await, "network");
    }
}
