//! Deletes everything that a stopped server has left on the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use elevo_sandbox::{DockerRuntime, DockerSettings, HostLimits, SandboxRuntime};

use crate::errors::DemoProblem;
use crate::local::data_directory::DataDirectory;

/// Deletes the containers and workspaces of a server that has stopped. The server
/// may have been interrupted at any moment. It has no network, because its
/// sandboxes have none.
pub(super) async fn empty(data: &DataDirectory, engine: Option<&str>) -> anyhow::Result<()> {
    let workspaces = data.path().join("workspaces");
    // A server without this file has not reached the engine yet.
    let installation = fs::read_to_string(workspaces.join("INSTALLATION")).ok();
    let deleted = match (engine, &installation) {
        (Some(host), Some(server)) => delete_containers(host, server.trim()).await,
        _ => Ok(()),
    };
    let erase = |tenant: PathBuf| elevo_workspace::erase(&tenant);
    // Each workspace is erased, also if the engine or another workspace fails.
    let erased: Vec<_> = directories(&workspaces)?.into_iter().map(erase).collect();
    deleted?;
    Ok(erased.into_iter().collect::<Result<(), _>>()?)
}

async fn delete_containers(host: &str, server: &str) -> elevo_sandbox::Result<()> {
    let runtime = DockerRuntime::connect(DockerSettings {
        host: host.into(),
        server: server.into(),
        network: "elevo-demo".into(),
        limits: HostLimits::default(),
        registries: None,
    });
    let runtime = runtime.await?;
    loop {
        let containers = runtime.list().await?;
        if containers.is_empty() {
            return Ok(());
        }
        let removing = containers.iter().map(|it| runtime.remove(&it.id));
        futures::future::try_join_all(removing).await?;
    }
}

/// Lists the directories in a directory, which may not exist.
fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

/// Checks that the directory is gone, and that no mount and no process refers to
/// it.
pub(super) fn check(directory: &Path) -> anyhow::Result<()> {
    let mut left = Vec::new();
    if directory.exists() {
        left.push(format!("the directory {}", directory.display()));
    }
    let name = directory.to_string_lossy();
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mounts = mounts.lines().filter(|line| line.contains(&*name));
    left.extend(mounts.map(|line| {
        let point = line.split(' ').nth(4).unwrap_or(line);
        format!("the mount {point}")
    }));
    let processes = directories(Path::new("/proc"))?.into_iter();
    left.extend(processes.filter_map(|process| {
        let command = fs::read(process.join("cmdline")).ok()?;
        let id = process.file_name()?.to_string_lossy().into_owned();
        let is_ours = String::from_utf8_lossy(&command).contains(&*name);
        is_ours.then(|| format!("the process {id}"))
    }));
    match left.is_empty() {
        true => Ok(()),
        false => Err(DemoProblem::Left(left).into()),
    }
}
