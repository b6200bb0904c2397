//! A server with projects and their workspaces.

use std::fs;
use std::iter::once;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::Bench;
use crate::data::Dataset;
use crate::engine::fixture::{create_store, import_all, repository};
use crate::server::Server;
use crate::suite::say;

/// Workspaces that are created at the same time.
const MAKING: usize = 4;

/// An engine that does not respond. The servers of these measures have no sandboxes, and their mounts
/// are in a namespace that an engine does not see: with one, their workspaces would be copies.
const NO_ENGINE: (&str, &str) = ("DOCKER_HOST", "unix:///nonexistent/docker.sock");

/// A server whose store holds the trees that projects start from.
pub(crate) struct Served {
    pub(crate) server: Server,
    snapshots: Vec<(usize, String)>,
}

impl Served {
    pub(super) fn start(bench: &mut Bench, sizes: &[usize]) -> Result<Self> {
        Self::start_with(bench, sizes, &[])
    }

    /// Starts a server with additional settings.
    pub(crate) fn start_with(
        bench: &mut Bench,
        sizes: &[usize],
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let trees = sizes.iter().map(|files| bench.trees.tree(*files));
        let trees = trees.collect::<Result<Vec<_>>>()?;
        let scratch = bench.trees.fresh("server");
        fs::create_dir_all(scratch.join("data"))?;
        let store = create_store(&scratch.join("data/store"))?;
        let snapshots = trees.iter().map(|tree| {
            let files = tree.layout.files();
            let taken = import_all(&repository(&store), &tree.files(), bench.trees.threads)?;
            Ok((files, taken.to_string()))
        });
        let snapshots = snapshots.collect::<Result<_>>()?;
        drop(store);
        let settings: Vec<_> = once(NO_ENGINE).chain(settings.iter().copied()).collect();
        Ok(Self {
            server: Server::start_with(&scratch, &settings)?,
            snapshots,
        })
    }

    /// Creates a project that starts from one of the trees.
    pub(super) async fn project(&self, name: &str, files: usize, policy: Value) -> Result<String> {
        let snapshot = self.snapshots.iter().find(|(size, _)| *size == files);
        let (_, snapshot) = snapshot.context("no imported tree has this number of files")?;
        let wish = json!({"name": name, "snapshot": snapshot, "policy": policy});
        let made = self.server.post("/api/v1/projects", &wish).await?;
        Ok(made["id"]
            .as_str()
            .context("the response has no `id`")?
            .to_owned())
    }

    /// Creates workspaces of the head; `wish` is the body of the request.
    pub(super) async fn workspaces(&self, count: usize, wish: &Value) -> Result<Vec<Workspace>> {
        // The first creates the layer that the others share.
        let first = Workspace::make(&self.server, wish).await?;
        say(&format!("making {count} workspaces"));
        let others = (1..count).map(|_| Workspace::make(&self.server, wish));
        let others = futures::stream::iter(others).buffer_unordered(MAKING);
        let mut made: Vec<_> = others.try_collect().await?;
        made.push(first);
        Ok(made)
    }

    /// Returns the content of a file in the head of a project.
    pub(super) async fn file(&self, project: &str, path: &str) -> Result<String> {
        let url = format!("/api/v1/projects/{project}/files?path={path}");
        let answer = self.server.request(reqwest::Method::GET, &url);
        let answer = answer.send().await?.error_for_status()?;
        Ok(answer.text().await?)
    }
}

/// A workspace on a project.
pub(crate) struct Workspace {
    pub(super) id: String,
    pub(super) path: PathBuf,
}

impl Workspace {
    async fn make(server: &Server, wish: &Value) -> Result<Self> {
        let made = server.post("/api/v1/workspaces", wish).await?;
        Ok(Self {
            id: made["id"]
                .as_str()
                .context("the response has no `id`")?
                .to_owned(),
            path: made["path"].as_str().context("it has a path")?.into(),
        })
    }

    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let path = self.path.join(path);
        let written = fs::write(&path, &content).or_else(|_| {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, &content)
        });
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Merges the workspace. The response arrives when the landed changes are durable.
    pub(super) async fn merge(&self, server: &Server) -> Result<Value> {
        let url = format!("/api/v1/workspaces/{}/merge", self.id);
        server.post(&url, &json!({"message": "work"})).await
    }

    /// Merges the workspace, and fails unless all changes land.
    pub(crate) async fn merge_whole(&self, server: &Server, changed: usize) -> Result<()> {
        let done = self.merge(server).await?;
        let counts = (&done["landedCount"], &done["conflictCount"]);
        ensure!(counts == (&json!(changed), &json!(0)), "{done}");
        Ok(())
    }
}
