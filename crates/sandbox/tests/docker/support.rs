//! Creates a separate installation for each test, with helpers.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::{Command, id};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    EventsOptionsBuilder, KillContainerOptionsBuilder, ListImagesOptionsBuilder,
};
use elevo_sandbox::conformance::Subject;
use elevo_sandbox::{
    ContainerId, ContainerSpec, ContainerState, ContainerStatus, DockerRuntime, DockerSettings,
    HostLimits, LogsQuery, Network, SandboxRuntime, User,
};
use elevo_testkit::docker;
use elevo_testkit::wait::until_async;
use futures::{FutureExt, StreamExt};

/// The user that commands run as.
pub(crate) const UID: u32 = 4321;
pub(crate) const MIB: u64 = 1 << 20;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An installation on the engine.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) runtime: Arc<DockerRuntime>,
    pub(crate) server: String,
    /// A client of the engine, for details that a runtime does not return.
    pub(crate) engine: bollard::Docker,
}

/// Runs a test in an installation, and cleans up afterwards.
pub(crate) fn with_installation<T: Future<Output = ()>>(test: impl FnOnce(Arc<Installation>) -> T) {
    run_in(Installation::new(), test);
}

fn run_in<T: Future<Output = ()>>(
    installation: impl Future<Output = Installation>,
    test: impl FnOnce(Arc<Installation>) -> T,
) {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let installation = Arc::new(tokio.block_on(installation));
    let running = AssertUnwindSafe(|| tokio.block_on(test(Arc::clone(&installation))));
    let result = catch_unwind(running);
    tokio.block_on(installation.clean_up());
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

/// Runs a test in an installation with these limits, and cleans up afterwards.
pub(crate) fn with_limits<T: Future<Output = ()>>(
    limits: HostLimits,
    test: impl FnOnce(Arc<Installation>) -> T,
) {
    run_in(Installation::with(&docker::host(), limits), test);
}

/// Runs a check of the conformance suite with two installations, and cleans up
/// afterwards.
pub(crate) fn with_subject<T: Future<Output = ()>>(check: impl FnOnce(Arc<Subject>) -> T) {
    with_installation(async |own| {
        let other = Installation::new().await;
        let subject = Subject {
            runtime: own.runtime.clone(),
            other: other.runtime.clone(),
            image: docker::tiny_image(),
            name: own.server.clone(),
        };
        let result = AssertUnwindSafe(check(Arc::new(subject)))
            .catch_unwind()
            .await;
        other.clean_up().await;
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    });
}

impl Installation {
    pub(crate) async fn new() -> Self {
        Self::at(&docker::host()).await
    }

    /// Creates an installation on the engine at this address.
    pub(crate) async fn at(host: &str) -> Self {
        Self::with(host, HostLimits::default()).await
    }

    /// Creates an installation on the engine at this address, with these
    /// limits.
    pub(crate) async fn with(host: &str, limits: HostLimits) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let server = format!("test-{}-{number}", id());
        let settings = DockerSettings {
            host: host.to_owned(),
            server: server.clone(),
            network: format!("elevo-{server}"),
            limits,
            registries: None,
        };
        Self {
            runtime: Arc::new(DockerRuntime::connect(settings).await.unwrap()),
            server,
            engine: bollard::Docker::connect_with_unix(host, 60, bollard::API_DEFAULT_VERSION)
                .unwrap()
                .negotiate_version()
                .await
                .unwrap(),
        }
    }

    /// Creates a runtime of this installation with credentials for registries.
    pub(crate) async fn with_registries(&self, registries: Option<PathBuf>) -> DockerRuntime {
        let settings = DockerSettings {
            host: docker::host(),
            server: self.server.clone(),
            network: format!("elevo-{}", self.server),
            limits: HostLimits::default(),
            registries,
        };
        DockerRuntime::connect(settings).await.unwrap()
    }

    pub(crate) async fn clean_up(&self) {
        for container in self.runtime.list().await.unwrap() {
            self.runtime.remove(&container.id).await.unwrap();
        }
        let names = format!("elevo-test/*-{}", self.server);
        let options = ListImagesOptionsBuilder::default()
            .filters(&HashMap::from([("reference", vec![names])]))
            .build();
        for image in self.engine.list_images(Some(options)).await.unwrap() {
            for tag in image.repo_tags {
                self.runtime.remove_image(&tag).await.unwrap();
            }
        }
        self.runtime.tear_down().await.unwrap();
    }

    /// Creates an image from a container; it is deleted with this installation.
    pub(crate) fn commit(&self, name: &str, of: &ContainerId, change: &str) -> String {
        let image = format!("elevo-test/{name}-{}:1", self.server);
        let engine = docker::host();
        let commit = ["docker", "--host", &engine, "commit", "--change", change];
        host(&[&commit[..], &[of.as_str(), &image]].concat());
        image
    }

    /// Returns the spec of a small sandbox that runs this script. Standard
    /// error goes to standard output, because an engine reads the two
    /// separately and may change their order.
    pub(crate) fn spec(&self, script: &str) -> ContainerSpec {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let script = format!("exec 2>&1; {script}");
        ContainerSpec {
            sandbox: format!("sbx-{}-{number}", self.server),
            image: docker::tiny_image(),
            user: User { uid: UID, gid: UID },
            mounts: Vec::new(),
            working_dir: "/tmp".to_owned(),
            command: ["/bin/sh", "-c", &script].map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            cpu_millis: 1000,
            memory: 64 * MIB,
            pids: 32,
            network: Network::None,
            runtime: None,
            writable_root: false,
            tmpfs: vec![("/tmp".to_owned(), 8 * MIB)],
            hostname: None,
        }
    }

    pub(crate) async fn start(&self, spec: &ContainerSpec) -> ContainerId {
        let id = self.runtime.create(spec).await.unwrap();
        self.runtime.start(&id).await.unwrap();
        id
    }

    /// Runs a script in a small sandbox and returns its output.
    pub(crate) async fn inside(&self, script: &str) -> String {
        self.output(&self.spec(script)).await
    }

    /// Runs the command of this sandbox to its end and returns its output.
    pub(crate) async fn output(&self, spec: &ContainerSpec) -> String {
        let id = self.start(spec).await;
        self.ended(&id).await;
        let text = self.logs(&id).await;
        self.runtime.remove(&id).await.unwrap();
        text
    }

    pub(crate) async fn status(&self, id: &ContainerId) -> ContainerStatus {
        self.runtime.status(id).await.unwrap().unwrap()
    }

    /// Waits until the command has ended, and returns the status.
    pub(crate) async fn ended(&self, id: &ContainerId) -> ContainerStatus {
        until_async("the command ends", async || {
            let status = self.status(id).await;
            (status.state == ContainerState::Exited).then_some(status)
        })
        .await
    }

    /// Returns all output.
    pub(crate) async fn logs(&self, id: &ContainerId) -> String {
        let query = LogsQuery {
            tail: None,
            since: None,
            until: None,
            limit: 4 << 20,
        };
        let logs = self.runtime.logs(id, &query).await.unwrap();
        assert!(!logs.truncated);
        String::from_utf8(logs.bytes.to_vec()).unwrap()
    }

    /// Waits until the output contains this text.
    pub(crate) async fn wrote(&self, id: &ContainerId, text: &str) {
        until_async(text, async || {
            self.logs(id).await.contains(text).then_some(())
        })
        .await;
    }

    /// Waits for the engine's event of this name about a container.
    pub(crate) async fn event(&self, id: &ContainerId, name: &str) {
        let filters = HashMap::from([("container", vec![id.as_str()]), ("event", vec![name])]);
        // The query includes events from before the request.
        let options = EventsOptionsBuilder::default().since("1").filters(&filters);
        let mut events = Box::pin(self.engine.events(Some(options.build())));
        let next = tokio::time::timeout(Duration::from_secs(30), events.next()).await;
        next.unwrap().unwrap().unwrap();
    }

    /// Sends a signal to the first process.
    pub(crate) async fn signal(&self, id: &ContainerId, name: &str) {
        let options = KillContainerOptionsBuilder::default().signal(name).build();
        self.engine
            .kill_container(id.as_str(), Some(options))
            .await
            .unwrap();
    }

    pub(crate) async fn inspect(&self, id: &ContainerId) -> ContainerInspectResponse {
        self.engine
            .inspect_container(id.as_str(), None)
            .await
            .unwrap()
    }
}

/// Runs a command on the host, which must succeed, and returns its output.
pub(crate) fn host(command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
