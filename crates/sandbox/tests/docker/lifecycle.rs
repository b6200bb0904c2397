//! Tests promises 8 to 11: start, stop, status and logs.

use std::time::{SystemTime, UNIX_EPOCH};

use bollard::query_parameters::KillContainerOptionsBuilder;
use elevo_core::Timestamp;
use elevo_sandbox::{
    ContainerState, DockerRuntime, DockerSettings, Error, HostLimits, LogsQuery, SandboxRuntime,
};
use elevo_testkit::docker;
use elevo_testkit::wait::until_async;

use crate::support::with_installation;

#[test]
fn logs_begin_and_end_at_a_time() {
    with_installation(async |own| {
        let script = "trap 'echo late; exit' TERM; echo early; while :; do sleep 0.1; done";
        let id = own.start(&own.spec(script)).await;
        own.wrote(&id, "early").await;
        // The engine compares whole seconds.
        let seconds = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_secs().cast_signed()
        };
        let early = seconds();
        let now = until_async("the next second", async || {
            Some(seconds()).filter(|now| *now > early)
        });
        let now = Timestamp::new(now.await, 0);
        let signal = KillContainerOptionsBuilder::default().signal("TERM");
        let killed = own.engine.kill_container(id.as_str(), Some(signal.build()));
        killed.await.unwrap();
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
fn stats_show_the_resources_of_a_sandbox() {
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
fn a_check_returns_the_properties_of_the_engine() {
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
async fn a_missing_engine_is_unreachable() {
    let directory = tempfile::tempdir().unwrap();
    let settings = |socket: &str| DockerSettings {
        host: format!("unix://{}/{socket}", directory.path().display()),
        server: "test".to_owned(),
        network: "elevo-test".to_owned(),
        limits: HostLimits::default(),
        registries: None,
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
async fn settings_that_name_shared_networks_or_remote_engines_are_rejected() {
    let refused = async |host: &str, server: &str, network: &str| {
        let settings = DockerSettings {
            host: host.to_owned(),
            server: server.to_owned(),
            network: network.to_owned(),
            limits: HostLimits::default(),
            registries: None,
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
