//! Imports a git repository: the files of one commit, or its first-parent
//! history with a step for each commit.

use std::path::PathBuf;
use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::LandingKind;
use elevo_core::{ErrorCode, Timestamp};
use elevo_engine::{Repository, StateTree};
use elevo_git::{Commit, Reader, Source};
use elevo_objects::{Snapshot, Tree};
use tokio::sync::mpsc;

use crate::app::access::principal::Principal;
use crate::app::projects::changes::Changes;
use crate::app::projects::changes::importing::{ImportedFiles, Target, replace};
use crate::app::projects::landing::job::Job;
use crate::app::projects::trees::committed;
use crate::app::snapshots::{Kept, info, writing};
use crate::failure::{Failure, Result, chain};
use crate::platform::clock;

/// Maximum commits in an imported history.
const COMMITS: usize = 100_000;

/// Maximum commits that land in one transaction. With more than 30 futures,
/// `join_all` does not poll them in order, and the steps must land in order.
const BATCH: usize = 30;

/// Maximum bytes of a commit message in the message of its step.
const MESSAGE: usize = 3000;

/// Maximum entries of each kind in a response.
const LISTED: usize = 1000;

/// A git commit whose files are in the store.
struct Read {
    commit: Commit,
    tree: Tree,
    /// Number of commits of the history that are still to be read.
    left: usize,
    submodules: u64,
    /// Its writer has put the files, and keeps them from garbage collection
    /// until a snapshot contains them.
    repository: Repository,
}

impl Changes {
    /// Stores the files of the git commit `revision` of the repository at `path`
    /// as a snapshot.
    pub(crate) async fn read_git(
        &self,
        target: &Target,
        (path, revision): (PathBuf, String),
    ) -> Result<ImportedFiles> {
        let store = self.stores.repository(target.who.tenant);
        let tenant = target.who.tenant;
        let read = self.stores.blocking(tenant, move || {
            let source = Source::open(&path, &revision)?;
            let commit = source.tip()?;
            let repository = writing(&store)?;
            let mut reader = Reader::new(&source, &repository);
            let tree = reader.read(&commit)?;
            Ok((commit, tree, reader.submodules(), repository))
        });
        let (commit, tree, submodules, repository) = read.await?;
        let tree = tree_at(&repository, &target.who, tree);
        let said = info(&target.who, format!("commit {}", commit.id));
        Ok(ImportedFiles {
            snapshot: committed(&tree, said).await?,
            not_kept: not_kept(submodules),
        })
    }

    /// Lands every commit of a first-parent history as a separate step.
    pub(crate) async fn land_history(
        self: &Arc<Self>,
        target: Target,
        (path, revision): (PathBuf, String),
    ) -> Result<api::ImportResult> {
        // The note is recorded before the first step lands. The import can fail
        // after some steps have landed, and then a retry must know that this
        // request has begun.
        target.once.note(&"history").await?;
        let (sender, commits) = mpsc::channel(2 * BATCH);
        let store = self.stores.repository(target.who.tenant);
        let reading = move || read_all(&store, &path, &revision, &sender);
        let reading = self.stores.blocking(target.who.tenant, reading);
        // The reader sends commits while earlier ones land. A failed landing
        // drops the receiver, which stops the reader.
        let (read, landed) = tokio::join!(reading, self.land_all(&target, commits));
        // If both have failed, the failed landing has stopped the reader, so
        // the failure of the landing is returned.
        let landed = landed?;
        read?;
        landed.ok_or_else(|| Failure::invalid("the repository has no commit"))
    }

    async fn land_all(
        self: &Arc<Self>,
        target: &Target,
        mut commits: mpsc::Receiver<Read>,
    ) -> Result<Option<api::ImportResult>> {
        let Target { who, project, .. } = target;
        let (mut base, around) = self.changeable(who, project, None).await?;
        let mut total: Option<api::ImportResult> = None;
        // The first commit lands alone: it adds all its files, while the others
        // change only some.
        let mut room = 1;
        loop {
            let mut batch = Vec::with_capacity(room);
            if commits.recv_many(&mut batch, room).await == 0 {
                return Ok(total);
            }
            room = BATCH;
            let mut landing = Vec::new();
            for read in &batch {
                let theirs = snapshot_of(target, &around, read).await?;
                let job = step(target, read, base, theirs.clone());
                landing.push(self.landings.settle(project, job, false));
                base = theirs;
            }
            for merge in futures::future::join_all(landing).await {
                add(&mut total, merge?);
            }
            if let (Some(total), Some(last)) = (&mut total, batch.last()) {
                total.not_kept = not_kept(last.submodules);
            }
        }
    }
}

fn read_all(
    store: &Repository,
    path: &std::path::Path,
    revision: &str,
    sender: &mpsc::Sender<Read>,
) -> Result<()> {
    let source = Source::open(path, revision)?;
    let mut reader = Reader::new(&source, store);
    let mut history = source.history(COMMITS)?;
    while let Some(commit) = history.next() {
        let commit = commit?;
        let repository = writing(store)?;
        reader.continue_with(&repository)?;
        let read = Read {
            tree: reader.read(&commit)?,
            commit,
            left: history.len(),
            submodules: reader.submodules(),
            repository,
        };
        if sender.blocking_send(read).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Stores a snapshot of the project in which the target directory is replaced by
/// the files of a git commit.
async fn snapshot_of(target: &Target, around: &StateTree, read: &Read) -> Result<Kept> {
    let Target { who, path, .. } = target;
    let tree = match path.is_root() {
        true => tree_at(&read.repository, who, read.tree),
        false => {
            let tree = around.with_writers_of(&read.repository);
            replace(&tree, path, read.tree).await?;
            tree
        }
    };
    let said = info(who, format!("commit {}", read.commit.id));
    committed(&tree, said).await
}

/// Returns the job that lands one git commit.
fn step(target: &Target, read: &Read, base: Kept, theirs: Kept) -> Job {
    let wish = api::Merge {
        message: message(&read.commit),
        ..api::Merge::default()
    };
    // The last step has the name of the whole request, so a retry finds that
    // name only if all steps have landed. The other steps have names of their
    // own, so a retry does not land them twice.
    let request = target.once.landing().map(|name| match read.left {
        0 => name,
        _ => format!("{name}/{}", read.commit.id),
    });
    Job {
        kind: LandingKind::Import,
        base: Some(base),
        ..Job::new(&target.who, &wish, theirs, request)
    }
}

/// Returns the message of a step: the message, author, date and id of its git
/// commit.
fn message(commit: &Commit) -> String {
    let said = commit.message.trim().replace('\0', "");
    let end = said.floor_char_boundary(MESSAGE);
    let author = commit.author.replace(['\0', '\n'], " ");
    let author = &author[..author.floor_char_boundary(500)];
    let mut text = format!("{}\n\nAuthor: {author}\n", &said[..end]);
    let time = commit
        .seconds
        .and_then(|seconds| Timestamp::new(seconds, 0));
    if let Some(time) = time {
        text += &format!("Date: {}\n", clock::text(time));
    }
    text + &format!("Commit: {}", commit.id)
}

fn tree_at(repository: &Repository, who: &Principal, tree: Tree) -> StateTree {
    let said = info(who, String::new());
    let snapshot = Snapshot {
        tree,
        times: None,
        parents: Vec::new(),
        author: said.author,
        message: said.message,
        created: said.created,
        labels: said.labels,
    };
    StateTree::at(repository, &snapshot)
}

fn not_kept(submodules: u64) -> Vec<String> {
    match submodules {
        0 => Vec::new(),
        1 => vec!["1 submodule, left out".to_owned()],
        count => vec![format!("{count} submodules, left out")],
    }
}

/// Adds the result of one step to the result of the import.
fn add(total: &mut Option<api::ImportResult>, step: api::MergeResult) {
    let Some(total) = total else {
        *total = Some(api::ImportResult {
            steps: step.step.iter().count() as u64,
            merge: step,
            not_kept: Vec::new(),
        });
        return;
    };
    total.steps += step.step.iter().count() as u64;
    let all = &mut total.merge;
    (all.head, all.snapshot) = (step.head, step.snapshot);
    all.step = step.step.or(all.step);
    all.landed_count += step.landed_count;
    all.conflict_count += step.conflict_count;
    all.refused_count += step.refused_count;
    all.same += step.same;
    all.local += step.local;
    extend(&mut all.landed, step.landed);
    extend(&mut all.conflicts, step.conflicts);
    extend(&mut all.refused, step.refused);
    extend(&mut all.overruled, step.overruled);
}

fn extend<T>(list: &mut Vec<T>, more: Vec<T>) {
    let room = LISTED.saturating_sub(list.len());
    list.extend(more.into_iter().take(room));
}

impl From<elevo_git::Error> for Failure {
    fn from(error: elevo_git::Error) -> Self {
        use elevo_git::Error;
        let code = match error {
            Error::Engine(error) => return error.into(),
            Error::TooLong(_) | Error::TooLarge { .. } => ErrorCode::PayloadTooLarge,
            _ => ErrorCode::InvalidRequest,
        };
        Self::new(code, chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_submodules_are_counted() {
        assert_eq!(not_kept(0), [""; 0]);
        assert_eq!(not_kept(1), ["1 submodule, left out"]);
        assert_eq!(not_kept(2), ["2 submodules, left out"]);
    }
}
