//! The process that serves its store to a test.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use elevo_engine::{Collection, GcScope, Guard, Store, StoreResult};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::protocol::{
    Call, Request, Step, WireError, of_id, of_ids, of_keys, tenant, to_id, to_ids, to_snapshot,
};
use super::{receive, send};

/// Serves the calls of a test until the process ends.
pub(crate) async fn serve<T: Store + 'static>(store: T, listener: UnixListener) {
    let server = Arc::new(Server {
        store: Box::leak(Box::new(store)),
        last: AtomicU64::new(0),
        guards: Mutex::default(),
        collections: Mutex::default(),
    });
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        tokio::spawn(answer(server.clone(), stream));
    }
}

async fn answer<T: Store>(server: Arc<Server<T>>, mut stream: UnixStream) -> io::Result<()> {
    let request = receive(&mut stream)?;
    let answer = server.call(request).await.map_err(WireError::of);
    send(&mut stream, &answer)
}

type Running = Arc<tokio::sync::Mutex<Box<dyn Collection>>>;

struct Server<T: 'static> {
    store: &'static T,
    last: AtomicU64,
    guards: Mutex<HashMap<u64, Guard>>,
    collections: Mutex<HashMap<u64, Running>>,
}

fn value(value: impl Serialize) -> StoreResult<Value> {
    Ok(serde_json::to_value(value).unwrap())
}

impl<T: Store> Server<T> {
    fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    fn keep(&self, guard: Guard) -> u64 {
        let number = self.number();
        self.guards.lock().insert(number, guard);
        number
    }

    async fn call(&self, request: Request) -> StoreResult<Value> {
        let (store, tenant) = (self.store, tenant(request.tenant));
        match request.call {
            Call::Get(keys) => {
                let found = store.get(tenant, &of_keys(keys)).await?;
                let bytes = found
                    .into_iter()
                    .map(|found| found.map(|data| data.to_vec()));
                value(bytes.collect::<Vec<_>>())
            }
            Call::Contains(keys) => value(store.contains(tenant, &of_keys(keys)).await?),
            Call::Commit(commit) => {
                let committed = store.commit(tenant, commit.read()).await?;
                value((to_ids(&committed.ids), self.keep(committed.held)))
            }
            Call::Snapshots(ids) => {
                let found = store.snapshots(tenant, &of_ids(ids)).await?;
                let records = found.iter().map(|found| found.as_ref().map(to_snapshot));
                value(
                    records
                        .map(Option::transpose)
                        .collect::<StoreResult<Vec<_>>>()?,
                )
            }
            Call::ListSnapshots(after, limit) => {
                let page = store.list_snapshots(tenant, after.map(of_id), limit);
                value(to_ids(&page.await?))
            }
            Call::SnapshotsSince(recent, after, limit) => {
                let after = after.map(of_id);
                let page = store.snapshots_since(tenant, recent.read(), after, limit);
                value(to_ids(&page.await?))
            }
            Call::Reference(name) => value(store.reference(tenant, &name).await?.map(to_id)),
            Call::ListReferences(prefix, after, limit) => {
                let page = store.list_references(tenant, &prefix, after.as_deref(), limit);
                let page = page.await?.into_iter().map(|(name, id)| (name, to_id(id)));
                value(page.collect::<Vec<_>>())
            }
            Call::StoredBytes => value(store.stored_bytes(tenant).await?),
            Call::Hold(ids) => match store.hold(tenant, &of_ids(ids)).await? {
                Some(held) => {
                    let records: StoreResult<Vec<_>> =
                        held.snapshots.iter().map(to_snapshot).collect();
                    value(Some((self.keep(held.guard), records?)))
                }
                None => Ok(Value::Null),
            },
            Call::Drop(number) => {
                self.guards.lock().remove(&number);
                self.collections.lock().remove(&number);
                Ok(Value::Null)
            }
            Call::Collect(is_young) => {
                let scope = match is_young {
                    true => GcScope::Young,
                    false => GcScope::Full,
                };
                let begun = store.collection(tenant, scope).await?;
                let (number, is_young) = (self.number(), begun.scope() == GcScope::Young);
                let begun = Arc::new(tokio::sync::Mutex::new(begun));
                self.collections.lock().insert(number, begun);
                Ok(json!([number, is_young]))
            }
            Call::Collection(number, step) => self.step(number, step).await,
        }
    }

    async fn step(&self, number: u64, step: Step) -> StoreResult<Value> {
        if let Step::Finish = step {
            let running = self.collections.lock().remove(&number).unwrap();
            let running = Arc::into_inner(running).expect("one call at a time");
            return value(running.into_inner().finish().await?);
        }
        let running = self.collections.lock()[&number].clone();
        let mut running = running.lock().await;
        match step {
            Step::OlderWriters => value(running.older_writers().await?),
            Step::Arrivals => value(to_ids(&running.arrivals().await?)),
            Step::Marked(keys) => value(running.marked(&of_keys(keys)).await?),
            Step::Mark(keys) => value(running.mark(&of_keys(keys)).await?),
            Step::Close => value(running.close().await?),
            Step::UnmarkedSnapshots(after, limit) => {
                let page = running.unmarked_snapshots(after.map(of_id), limit);
                value(to_ids(&page.await?))
            }
            Step::Remove(keys) => value(running.remove(&of_keys(keys)).await?),
            Step::Sweep(only_count) => {
                let swept = running.sweep(only_count).await?;
                value(swept.map(|swept| (swept.seen, swept.removed)))
            }
            Step::Finish => unreachable!("above"),
        }
    }
}
