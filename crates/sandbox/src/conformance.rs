//! The conformance suite for runtimes: the promises of
//! [`SandboxRuntime`](crate::SandboxRuntime) that can be checked through the
//! trait alone. Isolation (promises 1 to 5) has separate tests on Docker.
//!
//! ```ignore
//! elevo_sandbox::conformance_tests!(with_subject);
//! ```
//!
//! creates one `#[test]` for each check. `with_subject` takes an async function
//! of an [`Arc<Subject>`], runs it on a Tokio runtime, and cleans up. Checks
//! panic with their findings.

#![allow(
    clippy::unwrap_used,
    reason = "in a suite of checks a panic is the report"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;

use crate::{
    ContainerId, ContainerSpec, ContainerState, ContainerStatus, Error, LogsQuery, Network,
    SandboxRuntime, User,
};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Two installations on one engine.
#[derive(Debug)]
pub struct Subject {
    /// The installation under test.
    pub runtime: Arc<dyn SandboxRuntime>,
    /// Another installation on the same engine.
    pub other: Arc<dyn SandboxRuntime>,
    /// An image with a shell.
    pub image: String,
    /// A part of names that is unique to this subject.
    pub name: String,
}

/// Creates one `#[test]` for each check.
#[macro_export]
macro_rules! conformance_tests {
    ($with:path) => {
        $crate::conformance_tests!(@each $with:
            every_step_can_be_repeated
            a_container_is_found_by_the_name_of_its_sandbox
            a_name_that_is_taken_is_a_conflict
            concurrent_removals_all_find_the_container_gone
            a_list_shows_only_containers_of_this_installation
            a_missing_command_fails_the_start
            a_command_ends_with_its_exit_code
            a_killed_container_leaves_no_process
            logs_have_both_streams_and_a_tail
            logs_keep_the_last_whole_lines_within_the_limit
            a_frozen_container_stands_still_until_it_is_thawed
            a_frozen_container_can_be_killed
            stats_need_a_container
            invalid_specs_are_refused_and_leave_nothing
            a_missing_image_is_reported
            an_image_in_use_is_not_removed
            tear_down_is_refused_while_a_container_is_left
        );
    };
    (@each $with:path: $($check:ident)*) => {
        $(#[test]
        fn $check() {
            $with($crate::conformance::$check);
        })*
    };
}

impl Subject {
    /// Returns the spec of a small sandbox that runs this script.
    pub fn spec(&self, script: &str) -> ContainerSpec {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        ContainerSpec {
            sandbox: format!("sbx-{}-{number}", self.name),
            image: self.image.clone(),
            user: User {
                uid: 4321,
                gid: 4321,
            },
            mounts: Vec::new(),
            working_dir: "/tmp".to_owned(),
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            cpu_millis: 1000,
            memory: 64 << 20,
            pids: 32,
            network: Network::None,
            runtime: None,
            writable_root: false,
            tmpfs: vec![("/tmp".to_owned(), 8 << 20)],
            hostname: None,
        }
    }

    async fn started(&self, script: &str) -> ContainerId {
        let id = self.runtime.create(&self.spec(script)).await.unwrap();
        self.runtime.start(&id).await.unwrap();
        id
    }

    async fn status(&self, id: &ContainerId) -> ContainerStatus {
        self.runtime.status(id).await.unwrap().unwrap()
    }

    /// Waits until the command has ended.
    pub async fn ended(&self, id: &ContainerId) -> ContainerStatus {
        eventually("the command ends", async || {
            let status = self.status(id).await;
            (status.state == ContainerState::Exited).then_some(status)
        })
        .await
    }

    async fn logs(&self, id: &ContainerId, tail: Option<u32>, limit: usize) -> (String, bool) {
        let query = LogsQuery {
            tail,
            since: None,
            until: None,
            limit,
        };
        let logs = self.runtime.logs(id, &query).await.unwrap();
        (
            String::from_utf8(logs.bytes.to_vec()).unwrap(),
            logs.truncated,
        )
    }

    /// Waits until the log contains this text.
    async fn wrote(&self, id: &ContainerId, text: &str) {
        eventually(text, async || {
            let (log, _) = self.logs(id, None, 1 << 20).await;
            log.contains(text).then_some(())
        })
        .await;
    }
}

/// Calls `ask` until it returns a result; panics after a minute.
async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        // A runtime sends no event when a command ends or writes, so the check
        // polls.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("this did not happen within a minute: {what}");
}

/// Checks promise 8.
pub async fn every_step_can_be_repeated(own: Arc<Subject>) {
    let runtime = &own.runtime;
    let id = runtime.create(&own.spec("sleep 1000")).await.unwrap();
    assert_eq!(own.status(&id).await.state, ContainerState::Created);
    runtime.kill(&id).await.unwrap();

    runtime.start(&id).await.unwrap();
    let pid = own.status(&id).await.pid.unwrap();
    runtime.start(&id).await.unwrap();
    assert_eq!(own.status(&id).await.pid, Some(pid), "the same process");

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
}

/// Checks that the id of the sandbox works as a container id: callers know it
/// before they know the engine's id.
pub async fn a_container_is_found_by_the_name_of_its_sandbox(own: Arc<Subject>) {
    let spec = own.spec("sleep 1000");
    let id = own.runtime.create(&spec).await.unwrap();
    own.runtime.start(&id).await.unwrap();
    let name = ContainerId::new(&spec.sandbox).unwrap();
    assert_eq!(own.status(&name).await.state, ContainerState::Running);
    own.runtime.remove(&name).await.unwrap();
    assert_eq!(own.runtime.list().await.unwrap(), []);
}

/// Checks that a name that this or another installation has taken is a
/// conflict: an engine has one namespace for names.
pub async fn a_name_that_is_taken_is_a_conflict(own: Arc<Subject>) {
    let spec = own.spec("true");
    own.runtime.create(&spec).await.unwrap();
    for runtime in [&own.runtime, &own.other] {
        let error = runtime.create(&spec).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
    }
}

/// Checks promises 8 and 10.
pub async fn concurrent_removals_all_find_the_container_gone(own: Arc<Subject>) {
    let id = own.started("sleep 1000").await;
    let remove = || {
        let (own, id) = (own.clone(), id.clone());
        tokio::spawn(async move {
            own.runtime.remove(&id).await.unwrap();
            assert_eq!(own.runtime.status(&id).await.unwrap(), None);
        })
    };
    for removal in [remove(), remove(), remove()] {
        removal.await.unwrap();
    }
}

/// Checks promise 9.
pub async fn a_list_shows_only_containers_of_this_installation(own: Arc<Subject>) {
    let ours = own.spec("sleep 1000");
    let id = own.runtime.create(&ours).await.unwrap();
    own.runtime.start(&id).await.unwrap();
    let theirs = own.other.create(&own.spec("sleep 1000")).await.unwrap();
    own.other.start(&theirs).await.unwrap();
    let listed = own.runtime.list().await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0].sandbox, ours.sandbox);
    assert_eq!(listed[0].id, id);
    assert_eq!(listed[0].state, ContainerState::Running);
}

/// Checks a command whose file is missing, and one whose file cannot be
/// executed.
pub async fn a_missing_command_fails_the_start(own: Arc<Subject>) {
    for command in ["/no/such/command", "/etc/passwd"] {
        let mut spec = own.spec("");
        spec.command = vec![command.to_owned()];
        let id = own.runtime.create(&spec).await.unwrap();
        let error = own.runtime.start(&id).await.unwrap_err();
        assert!(matches!(error, Error::NotRunnable { .. }), "{error:?}");
        assert!(error.to_string().contains(command), "{error}");
        assert_ne!(own.status(&id).await.state, ContainerState::Running);
    }
}

/// Checks an ordinary exit, with and without an error.
pub async fn a_command_ends_with_its_exit_code(own: Arc<Subject>) {
    for (script, code) in [("exit 0", 0), ("exit 7", 7)] {
        let id = own.started(script).await;
        let status = own.ended(&id).await;
        assert_eq!(status.exit_code, Some(code), "{script}");
        assert_eq!(status.pid, None);
        assert!(!status.oom_killed);
    }
}

/// Checks that a kill also reaches processes that have left their group.
pub async fn a_killed_container_leaves_no_process(own: Arc<Subject>) {
    let id = own
        .started("sleep 1000 & (sleep 1000 &) ; echo started; wait")
        .await;
    own.wrote(&id, "started").await;
    own.runtime.kill(&id).await.unwrap();
    assert_eq!(own.status(&id).await.state, ContainerState::Exited);
    own.runtime.start(&id).await.unwrap();
    own.runtime.remove(&id).await.unwrap();
    assert_eq!(own.runtime.list().await.unwrap(), []);
}

/// Checks that logs have the lines of both streams, with each stream in order.
pub async fn logs_have_both_streams_and_a_tail(own: Arc<Subject>) {
    let script = "exec 3>&2; echo one; sleep 0.3; echo two >&3; sleep 0.3; echo three";
    let id = own.started(script).await;
    own.ended(&id).await;
    let (all, truncated) = own.logs(&id, None, 1000).await;
    let mut lines: Vec<_> = all.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "three", "two"]);
    assert!(all.find("one") < all.find("three"), "{all}");
    assert!(!truncated);
    let (tail, truncated) = own.logs(&id, Some(2), 1000).await;
    assert_eq!(tail.lines().count(), 2, "{tail}");
    assert!(!truncated);
}

/// Checks promise 7 for the reader of a log.
pub async fn logs_keep_the_last_whole_lines_within_the_limit(own: Arc<Subject>) {
    let id = own.started("echo one; echo two; echo three").await;
    own.ended(&id).await;
    assert_eq!(own.logs(&id, None, 11).await, ("two\nthree\n".into(), true));
}

/// Checks that a frozen container writes nothing, and that `freeze` and `thaw`
/// can be repeated.
pub async fn a_frozen_container_stands_still_until_it_is_thawed(own: Arc<Subject>) {
    let script = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done";
    let id = own.started(script).await;
    own.wrote(&id, "3\n").await;
    own.runtime.freeze(&id).await.unwrap();
    own.runtime.freeze(&id).await.unwrap();
    assert_eq!(own.status(&id).await.state, ContainerState::Frozen);
    assert_eq!(
        own.runtime.list().await.unwrap()[0].state,
        ContainerState::Frozen
    );
    // The first pause lets output in transit arrive. During the second pause, a
    // container that still runs would write six more lines.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (before, _) = own.logs(&id, None, 1 << 20).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(own.logs(&id, None, 1 << 20).await.0, before);
    own.runtime.thaw(&id).await.unwrap();
    own.runtime.thaw(&id).await.unwrap();
    assert_eq!(own.status(&id).await.state, ContainerState::Running);
    eventually("the container continues", async || {
        (own.logs(&id, None, 1 << 20).await.0.len() > before.len()).then_some(())
    })
    .await;
}

/// Checks that a kill does not wait for a thaw.
pub async fn a_frozen_container_can_be_killed(own: Arc<Subject>) {
    let id = own.started("sleep 1000").await;
    own.runtime.freeze(&id).await.unwrap();
    own.runtime.kill(&id).await.unwrap();
    assert_eq!(own.status(&id).await.state, ContainerState::Exited);
}

/// Checks the stats of a container, and the error if the container does not
/// exist.
pub async fn stats_need_a_container(own: Arc<Subject>) {
    let id = own.started("echo up; sleep 1000").await;
    own.wrote(&id, "up").await;
    let stats = own.runtime.stats(&id).await.unwrap();
    assert_eq!(stats.memory_limit, 64 << 20);
    assert!(stats.pids > 0, "{stats:?}");
    own.runtime.remove(&id).await.unwrap();
    let error = own.runtime.stats(&id).await.unwrap_err();
    assert!(matches!(error, Error::NoSuchContainer { .. }), "{error}");
}

/// Checks promise 6.
pub async fn invalid_specs_are_refused_and_leave_nothing(own: Arc<Subject>) {
    type Change = fn(&mut ContainerSpec);
    let changes: [(&str, Change); 5] = [
        ("user", |spec| spec.user.uid = 0),
        ("memory", |spec| spec.memory = 0),
        ("pids", |spec| spec.pids = 0),
        ("cpu_millis", |spec| spec.cpu_millis = 1_000_000),
        ("mounts", |spec| {
            let mount = crate::Mount::writable("/no/such/directory", "/workspace");
            spec.mounts.push(mount);
        }),
    ];
    for (wanted, change) in changes {
        let mut spec = own.spec("true");
        change(&mut spec);
        match own.runtime.create(&spec).await {
            Err(Error::Refused { what, .. }) => assert_eq!(what, wanted),
            other => panic!("{wanted}: {other:?}"),
        }
    }
    let mut spec = own.spec("true");
    spec.runtime = Some("no-such-runtime".to_owned());
    let error = own.runtime.create(&spec).await.unwrap_err();
    assert!(matches!(error, Error::NoSuchRuntime { .. }), "{error}");
    assert_eq!(own.runtime.list().await.unwrap(), []);
}

/// Checks a missing image: `image` does not find it, `create` rejects it, and
/// `remove_image` succeeds.
pub async fn a_missing_image_is_reported(own: Arc<Subject>) {
    let name = "elevo-test/no-such-image:1";
    assert_eq!(own.runtime.image(name).await.unwrap(), None);
    let mut spec = own.spec("true");
    spec.image = name.to_owned();
    let error = own.runtime.create(&spec).await.unwrap_err();
    assert!(matches!(error, Error::NoSuchImage { .. }), "{error}");
    own.runtime.remove_image(name).await.unwrap();
    let mut steps = own.runtime.pull("not/../a name").await;
    assert!(matches!(
        steps.next().await,
        Some(Err(Error::Refused { .. }))
    ));
}

/// Checks that an image that a container uses cannot be removed, because the
/// container needs it to start again.
pub async fn an_image_in_use_is_not_removed(own: Arc<Subject>) {
    assert!(own.runtime.image(&own.image).await.unwrap().is_some());
    let id = own.started("sleep 1000").await;
    let error = own.runtime.remove_image(&own.image).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    own.runtime.remove(&id).await.unwrap();
}

/// Checks promise 12.
pub async fn tear_down_is_refused_while_a_container_is_left(own: Arc<Subject>) {
    let id = own.runtime.create(&own.spec("true")).await.unwrap();
    let error = own.runtime.tear_down().await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    own.runtime.remove(&id).await.unwrap();
    own.runtime.tear_down().await.unwrap();
    own.runtime.tear_down().await.unwrap();
    own.runtime.create(&own.spec("true")).await.unwrap();
}
