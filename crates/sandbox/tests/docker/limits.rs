//! Tests promises 4, 6 and 7: limits are enforced, or rejected.

use elevo_sandbox::{ContainerId, ContainerState, Error, LogsQuery, SandboxRuntime};
use elevo_testkit::wait::until_async;

use crate::support::{Installation, MIB, with_installation};

#[test]
fn a_fork_bomb_stays_within_its_limit_of_processes_and_harms_no_other_sandbox() {
    with_installation(async |own| {
        let neighbour = own
            .start(&own.spec("while sleep 0.1; do echo alive; done"))
            .await;
        // Each copy starts two more copies and waits, until the limit is
        // reached.
        let mut spec = own.spec(
            "printf '%s\\n' '#!/bin/sh' '/tmp/bomb & /tmp/bomb & sleep 60' >/tmp/bomb; \
             chmod +x /tmp/bomb; /tmp/bomb",
        );
        spec.pids = 20;
        let bomb = own.start(&spec).await;
        own.wrote(&bomb, "fork").await;
        let stats = own.runtime.stats(&bomb).await.unwrap();
        assert!(stats.pids <= 20, "{stats:?}");

        let before = own.logs(&neighbour).await.len();
        until_async("the neighbour goes on", async || {
            (own.logs(&neighbour).await.len() > before).then_some(())
        })
        .await;
        own.runtime.kill(&bomb).await.unwrap();
        assert_eq!(own.status(&bomb).await.state, ContainerState::Exited);
        assert_eq!(own.status(&neighbour).await.state, ContainerState::Running);
    });
}

#[test]
fn a_memory_hog_is_killed_alone() {
    with_installation(async |own| {
        let neighbour = own.start(&own.spec("sleep 1000")).await;
        let script = "sleep 1000 & tail /dev/zero; echo ended with $?; wait";
        let mut spec = own.spec(&format!("{WAIT_FOR_SIGNAL} {script}"));
        spec.memory = 24 * MIB;
        let hog = own.start(&spec).await;
        out_of_memory(&own, &hog).await;
        own.wrote(&hog, "ended with 137").await;
        killed_for_memory(&own, &hog).await;
        let status = own.status(&neighbour).await;
        assert_eq!(status.state, ContainerState::Running);
        assert!(!status.oom_killed);
    });
}

#[test]
fn files_in_memory_count_as_memory() {
    with_installation(async |own| {
        // The files stay when `dd` is killed, so the first process must not need
        // memory any more: its end would lose the event.
        let script = "(until [ \"$(cat /proc/$$/comm)\" = sleep ]; do :; done; \
                      dd if=/dev/zero of=/tmp/x bs=1M count=100) & exec sleep 1000";
        let mut spec = own.spec(&format!("{WAIT_FOR_SIGNAL} {script}"));
        spec.memory = 24 * MIB;
        spec.tmpfs[0].1 = 200 * MIB;
        let id = own.start(&spec).await;
        out_of_memory(&own, &id).await;
        killed_for_memory(&own, &id).await;
    });
}

/// Waits for the signal of `out_of_memory`.
const WAIT_FOR_SIGNAL: &str =
    "go=; trap go=1 USR1; echo ready; until [ \"$go\" ]; do sleep 0.1; done;";

/// Lets the script of a container go on, and waits until the engine has
/// reported that a process in it ran out of memory.
///
/// With cgroups of version 1, the engine registers for the event of the kernel
/// only after it has started the first process, and loses an earlier event. So
/// the script must not need the memory before the start has returned.
async fn out_of_memory(own: &Installation, id: &ContainerId) {
    own.wrote(id, "ready").await;
    // The engine keeps only its last events, so the request is sent before the
    // other tests can have caused many.
    tokio::join!(own.event(id, "oom"), own.signal(id, "USR1"));
}

/// Kills a container that ran out of memory, and checks its status.
///
/// The engine receives the event of the kernel separately from the end of the
/// container, and loses the event if the container ends first.
async fn killed_for_memory(own: &Installation, id: &ContainerId) {
    own.runtime.kill(id).await.unwrap();
    let status = own.ended(id).await;
    assert!(status.oom_killed, "{status:?}");
}

#[test]
fn a_busy_loop_gets_no_more_processor_than_its_limit() {
    with_installation(async |own| {
        let mut spec = own.spec("while :; do :; done");
        spec.cpu_millis = 200;
        let id = own.start(&spec).await;
        let percent = async || own.runtime.stats(&id).await.unwrap().cpu_percent;
        until_async("the loop is busy", async || {
            (percent().await > 1.0).then_some(())
        })
        .await;
        let mut percents = Vec::new();
        for _ in 0..5 {
            percents.push(percent().await);
        }
        percents.sort_by(f64::total_cmp);
        assert!(percents[2] < 40.0, "{percents:?}");
    });
}

#[test]
fn output_takes_bounded_disk_space_and_its_end_is_kept() {
    with_installation(async |own| {
        let script =
            "i=0; while test $i -lt 120000; do echo line $i of a long log; i=$((i+1)); done";
        let id = own.start(&own.spec(script)).await;
        own.ended(&id).await;
        let all = own.logs(&id).await;
        // The engine keeps two files of 1 MB in its encoding, which is larger
        // than the text.
        assert!(all.len() < 2_200_000, "{}", all.len());
        assert!(all.ends_with("line 119999 of a long log\n"));

        let query = LogsQuery {
            tail: None,
            since: None,
            until: None,
            limit: 1000,
        };
        let logs = own.runtime.logs(&id, &query).await.unwrap();
        assert!(logs.truncated && logs.bytes.len() <= 1000);
        assert!(logs.bytes.starts_with(b"line "), "whole lines");
        assert!(logs.bytes.ends_with(b"line 119999 of a long log\n"));
    });
}

#[test]
fn rejects_an_impossible_limit_and_leaves_nothing() {
    with_installation(async |own| {
        let cpus = own.runtime.check().await.unwrap().cpus;
        let mut spec = own.spec("true");
        spec.cpu_millis = cpus * 1000 + 1;
        let error = own.runtime.create(&spec).await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Refused {
                    what: "cpu_millis",
                    ..
                }
            ),
            "{error}"
        );

        let mut spec = own.spec("true");
        spec.memory = MIB;
        let error = own.runtime.create(&spec).await.unwrap_err();
        assert!(
            matches!(error, Error::Refused { what: "memory", .. }),
            "{error}"
        );

        let mut spec = own.spec("true");
        spec.runtime = Some("nosuch".to_owned());
        let error = own.runtime.create(&spec).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchRuntime { .. }), "{error}");

        let mut spec = own.spec("true");
        spec.mounts = vec![elevo_sandbox::Mount::writable("/no/such/place", "/w")];
        let error = own.runtime.create(&spec).await.unwrap_err();
        assert!(
            matches!(error, Error::Refused { what: "mounts", .. }),
            "{error}"
        );

        assert_eq!(own.runtime.list().await.unwrap(), []);
    });
}

#[test]
fn the_minimum_of_memory_is_the_minimum_of_the_engine() {
    with_installation(async |own| {
        let mut spec = own.spec("true");
        spec.memory = 6 * MIB;
        let id = own.runtime.create(&spec).await.unwrap();
        let config = own.inspect(&id).await.host_config.unwrap();
        assert_eq!(config.memory, Some(6 << 20));
    });
}
