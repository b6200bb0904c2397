//! Random calls, compared with the memory store.

use elevo_core::TenantId;
use elevo_objects::{Kind, ObjectKey, Snapshot};

use super::{ALICE, BOB, id, keys, object, put_for, snapshot, update};
use crate::memory::MemoryStore;
use crate::store::{Commit, Committed, Expected, Object, Store, StoreError, StoreResult};

/// Random calls of two tenants, each compared with a [`MemoryStore`].
pub async fn random_calls_give_the_results_of_the_memory_store(store: &impl Store) {
    let model = MemoryStore::new();
    let mut random = Random(2);
    for step in 0..400 {
        let tenant = [ALICE, BOB][random.below(2)];
        if random.below(4) == 0 {
            let objects = random.objects();
            put_for(store, tenant, objects.clone()).await;
            put_for(&model, tenant, objects).await;
        } else {
            let commit = random.commit();
            let (ours, theirs) = (
                store.commit(tenant, commit.clone()),
                model.commit(tenant, commit),
            );
            let ids = |committed: StoreResult<Committed>| committed.map(|committed| committed.ids);
            assert_same(ids(ours.await), ids(theirs.await), step);
        }
        assert_same_state(store, &model, tenant, step).await;
    }
}

async fn assert_same_state(store: &impl Store, model: &MemoryStore, tenant: TenantId, step: usize) {
    let ids = model.list_snapshots(tenant, None, 100).await;
    let asked = ids.as_ref().map_or(&[][..], |ids| ids);
    assert_same(
        store.snapshots(tenant, asked).await,
        model.snapshots(tenant, asked).await,
        step,
    );
    assert_same(store.list_snapshots(tenant, None, 100).await, ids, step);
    let references = store.list_references(tenant, "", None, 100).await;
    assert_same(
        references,
        model.list_references(tenant, "", None, 100).await,
        step,
    );
    // Objects of a failed commit may or may not be stored; those of the model
    // must be.
    let keys = keys(&(0..Random::OBJECTS).map(Random::object).collect::<Vec<_>>());
    let ours = store.get(tenant, &keys).await.expect("get");
    let theirs = model.get(tenant, &keys).await.expect("get");
    for (ours, theirs) in ours.into_iter().zip(theirs) {
        assert!(
            theirs.is_none() || ours == theirs,
            "step {step}: {ours:?} is not {theirs:?}"
        );
    }
}

fn assert_same<T: PartialEq + std::fmt::Debug>(
    ours: StoreResult<T>,
    theirs: StoreResult<T>,
    step: usize,
) {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "step {step}"),
        (Err(StoreError::Refused(_)), Err(StoreError::Refused(_))) => {}
        (
            Err(StoreError::ReferenceMoved { current: ours, .. }),
            Err(StoreError::ReferenceMoved {
                current: theirs, ..
            }),
        ) => assert_eq!(ours, theirs, "step {step}"),
        (ours, theirs) => panic!("step {step}: {ours:?} is not {theirs:?}"),
    }
}

/// Pseudo-random choices that are the same in every run (xorshift64).
pub(super) struct Random(pub(super) u64);

impl Random {
    const OBJECTS: usize = 12;

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % bound
    }

    fn object(n: usize) -> Object {
        object(
            [Kind::Chunk, Kind::Directory][n % 2],
            format!("object {n}").repeat(n * n),
        )
    }

    fn objects(&mut self) -> Vec<Object> {
        (0..self.below(4))
            .map(|_| Self::object(self.below(Self::OBJECTS)))
            .collect()
    }

    fn snapshot(&mut self) -> Snapshot {
        let root = match Self::object(self.below(Self::OBJECTS)).key {
            ObjectKey {
                kind: Kind::Directory,
                hash,
            } => Some(hash),
            _ => None,
        };
        snapshot(root, format!("{}", self.below(3)))
    }

    fn commit(&mut self) -> Commit {
        let snapshots: Vec<_> = (0..self.below(3)).map(|_| self.snapshot()).collect();
        let mut names = vec!["a", "b", "c"];
        let references = (0..self.below(3))
            .map(|_| {
                let name = names.swap_remove(self.below(names.len()));
                let known = id(&self.snapshot());
                let expected = [Expected::Any, Expected::Absent, Expected::At(known)];
                let target = snapshots.first().map(id);
                update(name, expected[self.below(3)], target)
            })
            .collect();
        Commit {
            objects: self.objects(),
            snapshots,
            references,
            after: Vec::new(),
        }
    }
}
