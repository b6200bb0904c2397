//! Overlays of an ordinary user in user namespaces, compared with those of root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use anyhow::{Context, Result, anyhow, ensure};
use elevo_engine::{Progress, Repository};
use elevo_objects::SnapshotId;
use elevo_workspace::{
    NeverFreeze, Options, ProviderKind, WorkspaceAccess, WorkspaceId, Workspaces,
};
use rustix::process::{Gid, Uid};

use super::{id, now};
use crate::engine::fixture::{Bench, commit_info};
use crate::engine::short;
use crate::measure::{Contender, interleave, timed};
use crate::report::{Bar, Row, Unit};

const ROUNDS: usize = 30;
/// The user and group id of the user without privileges.
const NOBODY: u32 = 65534;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.sizes.small;
    let tree = bench.tree(files)?;
    let (program, places) = (program(bench)?, bench.fresh("rootless"));
    give_away(&tree.store_path())?;
    fs::create_dir(&places)?;
    chown(&places, Some(NOBODY), Some(NOBODY))?;
    let side = |kind, root: PathBuf| Side {
        kind,
        root,
        threads: bench.threads,
        repository: tree.repository(),
        snapshot: tree.snapshot,
        program: program.clone(),
    };
    let nobody = Nobody::start()?;
    let rootless = Arc::new(side(ProviderKind::Rootless, places));
    let overlay = side(ProviderKind::Overlay, bench.fresh("overlay"));
    let name = short(files);
    let mut rows = Vec::new();
    let bar = Some(Bar::AtMostTimes(2.0));
    for (number, (what, act, bar)) in [
        ("create", Side::create as fn(&Side, usize) -> _, bar),
        ("create, and a command in it", Side::create_and_run, None),
        ("fork", Side::fork, bar),
        ("fork, and a command in it", Side::fork_and_run, None),
    ]
    .into_iter()
    .enumerate()
    {
        let [mut one, mut other] = [number * 1000; 2];
        // The first workspace creates the layers.
        overlay.create(one)?;
        let first = rootless.clone();
        nobody.run(move || first.create(other))??;
        let contenders: [Contender<'_>; 2] = [
            Box::new(|| {
                other += 2;
                let (side, number) = (rootless.clone(), other);
                nobody.run(move || act(&side, number))?
            }),
            Box::new(|| {
                one += 2;
                act(&overlay, one)
            }),
        ];
        let [ours, root] = interleave(ROUNDS, contenders)?;
        rows.push(Row {
            name: format!("rootless: {what}, {name} files"),
            unit: Unit::Milliseconds,
            ours: ours.figure(),
            peer: Some(("by root", root.figure())),
            bar,
        });
    }
    Ok(rows)
}

/// Workspaces of one kind.
struct Side {
    kind: ProviderKind,
    root: PathBuf,
    threads: usize,
    repository: Repository,
    snapshot: SnapshotId,
    program: PathBuf,
}

impl Side {
    fn open(&self) -> Result<Workspaces> {
        let options = Options {
            threads: self.threads,
            provider: Some(self.kind),
            spare_layers: 1 << 40,
            pool: None,
            owner: None,
            lazy: None,
            hidden_mounts: false,
            node: None,
        };
        Ok(Workspaces::open(
            &self.root,
            self.repository.clone(),
            &options,
        )?)
    }

    fn make(&self, workspaces: &Workspaces, number: usize) -> Result<WorkspaceId> {
        let id = id(number)?;
        workspaces.create(&id, self.snapshot, now(), None, &Progress::new())?;
        Ok(id)
    }

    /// Starts the smallest program in a workspace, and waits for it.
    fn command(&self, workspaces: &Workspaces, id: &WorkspaceId) -> Result<()> {
        let status = match workspaces.access(id, &Progress::new())? {
            WorkspaceAccess::Directory(directory) => {
                Command::new("true").current_dir(directory).status()?
            }
            WorkspaceAccess::Entrance(entrance) => Command::new(&self.program)
                .args(["ws", "enter", &entrance.inode.to_string()])
                .args([entrance.room, entrance.files])
                .args(entrance.lowers)
                .args(["--", "true"])
                .status()?,
        };
        ensure!(status.success(), "a command in a workspace failed");
        Ok(())
    }

    fn create(&self, number: usize) -> Result<f64> {
        let workspaces = self.open()?;
        Ok(timed(|| self.make(&workspaces, number))?.0)
    }

    fn create_and_run(&self, number: usize) -> Result<f64> {
        let workspaces = self.open()?;
        let (seconds, ()) = timed(|| {
            let id = self.make(&workspaces, number)?;
            self.command(&workspaces, &id)
        })?;
        Ok(seconds)
    }

    fn fork(&self, number: usize) -> Result<f64> {
        self.forked(number, |_, _| Ok(()))
    }

    fn fork_and_run(&self, number: usize) -> Result<f64> {
        self.forked(number, |workspaces, id| self.command(workspaces, id))
    }

    /// Times the fork of a workspace with a change.
    fn forked(
        &self,
        number: usize,
        then: impl FnOnce(&Workspaces, &WorkspaceId) -> Result<()>,
    ) -> Result<f64> {
        let workspaces = self.open()?;
        let (from, into) = (self.make(&workspaces, number)?, [id(number + 1)?]);
        let upper = self.root.join("live").join(from.as_str()).join("upper");
        // A file in the upper counts as a change with every kind of provider.
        fs::write(upper.join("changed"), number.to_string())?;
        let (seconds, ()) = timed(|| {
            let info = commit_info(None);
            workspaces.fork(&from, &into, info, &NeverFreeze, &Progress::new())?;
            then(&workspaces, &into[0])
        })?;
        Ok(seconds)
    }
}

/// A thread that runs as an unprivileged user.
struct Nobody(Sender<Box<dyn FnOnce() + Send>>);

impl Nobody {
    fn start() -> Result<Self> {
        let (jobs, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        std::thread::spawn(move || queue.into_iter().for_each(|job| job()));
        let nobody = Self(jobs);
        nobody.run(|| {
            let (group, user) = (Gid::from_raw(NOBODY), Uid::from_raw(NOBODY));
            rustix::thread::set_thread_groups(&[])?;
            rustix::thread::set_thread_res_gid(group, group, group)?;
            rustix::thread::set_thread_res_uid(user, user, user)
        })??;
        Ok(nobody)
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (sender, receiver) = mpsc::channel();
        let job = move || drop(sender.send(work()));
        self.0
            .send(Box::new(job))
            .map_err(|_| anyhow!("it ended"))?;
        Ok(receiver.recv()?)
    }
}

/// A copy of `elevo` that every user may run.
fn program(bench: &Bench) -> Result<PathBuf> {
    let built = std::env::current_exe()?.with_file_name("elevo");
    let program = bench.fresh("elevo");
    fs::copy(&built, &program).with_context(|| format!("{} is not built", built.display()))?;
    let directory = program
        .parent()
        .context("the copy of `elevo` has no parent directory")?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

/// Changes the owner of the store, because a fork writes to it.
fn give_away(store: &Path) -> Result<()> {
    let mut open = vec![store.to_owned()];
    while let Some(path) = open.pop() {
        chown(&path, Some(NOBODY), Some(NOBODY))?;
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
    }
    Ok(())
}
