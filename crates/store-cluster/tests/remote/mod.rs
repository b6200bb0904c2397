//! A store in another process, which a test calls over a socket: one connection
//! for each call.

mod protocol;
mod server;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{
    Collection, Commit, Committed, GcScope, Guard, Held, Object, Recent, Store, StoreResult, Swept,
    Writer,
};
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::protocol::{
    Call, Id, Request, Step, WireCommit, WireError, WireRecent, of_id, of_ids, of_snapshot, to_id,
    to_ids, to_keys,
};
pub(crate) use self::server::serve;

fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let message = serde_json::to_vec(message)?;
    stream.write_all(&(message.len() as u32).to_le_bytes())?;
    stream.write_all(&message)
}

fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut message)?;
    Ok(serde_json::from_slice(&message)?)
}

/// The store of the process that listens at a socket.
#[derive(Clone)]
pub(crate) struct Remote {
    socket: PathBuf,
}

impl Remote {
    pub(crate) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
        }
    }

    /// Blocks the thread until the other process answers.
    fn ask<T: DeserializeOwned>(&self, tenant: TenantId, call: Call) -> StoreResult<T> {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        let tenant = *tenant.as_bytes();
        send(&mut stream, &Request { tenant, call }).unwrap();
        let answer: Result<T, WireError> = receive(&mut stream).unwrap();
        answer.map_err(WireError::read)
    }

    async fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        tenant: TenantId,
        call: Call,
    ) -> StoreResult<T> {
        let remote = self.clone();
        let asking = tokio::task::spawn_blocking(move || remote.ask(tenant, call));
        asking.await.unwrap()
    }

    fn kept(&self, number: u64) -> Kept {
        Kept {
            remote: self.clone(),
            number,
        }
    }
}

/// A guard or a collection of the other process, until dropped.
struct Kept {
    remote: Remote,
    number: u64,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let dropped = self
            .remote
            .ask::<()>(TenantId::new([0; 16]), Call::Drop(self.number));
        dropped.unwrap();
    }
}

#[async_trait]
impl Store for Remote {
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        let found: Vec<Option<Vec<u8>>> = self.call(tenant, Call::Get(to_keys(keys))).await?;
        Ok(found
            .into_iter()
            .map(|data| data.map(Bytes::from))
            .collect())
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.call(tenant, Call::Contains(to_keys(keys))).await
    }

    async fn put(&self, _: TenantId, _: &Writer, _: Vec<Object>) -> StoreResult<()> {
        unreachable!("writers belong to the other handle")
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        let commit = WireCommit::of(&commit)?;
        let (ids, number): (Vec<Id>, u64) = self.call(tenant, Call::Commit(commit)).await?;
        Ok(Committed {
            ids: of_ids(ids),
            held: Guard::new(self.kept(number)),
        })
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        let found: Vec<Option<Vec<u8>>> = self.call(tenant, Call::Snapshots(to_ids(ids))).await?;
        Ok(found.into_iter().map(|one| one.map(of_snapshot)).collect())
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let call = Call::ListSnapshots(after.map(to_id), limit);
        Ok(of_ids(self.call(tenant, call).await?))
    }

    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let call = Call::SnapshotsSince(WireRecent::of(recent), after.map(to_id), limit);
        Ok(of_ids(self.call(tenant, call).await?))
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        let found: Option<Id> = self.call(tenant, Call::Reference(name.to_owned())).await?;
        Ok(found.map(of_id))
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        let call = Call::ListReferences(prefix.to_owned(), after.map(str::to_owned), limit);
        let found: Vec<(String, Id)> = self.call(tenant, call).await?;
        Ok(found
            .into_iter()
            .map(|(name, id)| (name, of_id(id)))
            .collect())
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        self.call(tenant, Call::StoredBytes).await
    }

    async fn writing(&self, _: TenantId) -> StoreResult<Writer> {
        unreachable!("writers belong to the other handle")
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        let held: Option<(u64, Vec<Vec<u8>>)> =
            self.call(tenant, Call::Hold(to_ids(snapshots))).await?;
        Ok(held.map(|(number, records)| Held {
            guard: Guard::new(self.kept(number)),
            snapshots: records.into_iter().map(of_snapshot).collect(),
        }))
    }

    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        let call = Call::Collect(scope == GcScope::Young);
        let (number, is_young): (u64, bool) = self.call(tenant, call).await?;
        Ok(Box::new(RemoteCollection {
            kept: self.kept(number),
            tenant,
            scope: match is_young {
                true => GcScope::Young,
                false => GcScope::Full,
            },
        }))
    }
}

struct RemoteCollection {
    kept: Kept,
    tenant: TenantId,
    scope: GcScope,
}

impl RemoteCollection {
    async fn step<T: DeserializeOwned + Send + 'static>(&self, step: Step) -> StoreResult<T> {
        let call = Call::Collection(self.kept.number, step);
        self.kept.remote.call(self.tenant, call).await
    }
}

#[async_trait]
impl Collection for RemoteCollection {
    fn scope(&self) -> GcScope {
        self.scope
    }

    async fn older_writers(&self) -> StoreResult<usize> {
        self.step(Step::OlderWriters).await
    }

    async fn arrivals(&self) -> StoreResult<Vec<SnapshotId>> {
        Ok(of_ids(self.step(Step::Arrivals).await?))
    }

    async fn marked(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.step(Step::Marked(to_keys(keys))).await
    }

    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.step(Step::Mark(to_keys(keys))).await
    }

    async fn close(&self) -> StoreResult<bool> {
        self.step(Step::Close).await
    }

    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let step = Step::UnmarkedSnapshots(after.map(to_id), limit);
        Ok(of_ids(self.step(step).await?))
    }

    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.step(Step::Remove(to_keys(keys))).await
    }

    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>> {
        let swept: Option<(u64, u64)> = self.step(Step::Sweep(only_count)).await?;
        Ok(swept.map(|(seen, removed)| Swept { seen, removed }))
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.step(Step::Finish).await
    }
}
