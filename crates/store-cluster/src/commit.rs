//! Commits. Small ones are one statement; its pack makes a repetition harmless.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::store::check_reference_name;
use elevo_engine::{
    Commit, Committed, Expected, Guard, Object, ReferenceUpdate, StoreError, StoreResult,
};
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId};
use sqlx::postgres::PgQueryResult;
use tokio::time::{Instant, sleep};

use crate::failure::{self, Failed};
use crate::pack::{Contents, MAX_PACK_OBJECTS, Pack, PackBuilder, code_of_kind};
use crate::read::hashes;
use crate::session::Joined;
use crate::steps::{Step, reached};
use crate::store::{Inner, check_objects};
use crate::upload::{AT_ONCE, Columns};

/// Pause before a statement is repeated: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

const COMMIT: &str = "SELECT store.commit_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
                      $13, $14, $15, $16, $17, $18)";

/// The moves of refs, as columns.
#[derive(Default)]
struct Moves {
    names: Vec<String>,
    checks: Vec<i8>,
    expected: Vec<Option<Vec<u8>>>,
    targets: Vec<Option<Vec<u8>>>,
    /// Their places in the commit.
    places: Vec<i32>,
}

impl Moves {
    /// In the order of the names, so that commits do not wait for each other in
    /// a circle.
    fn of(updates: &[ReferenceUpdate]) -> Self {
        let mut updates: Vec<_> = updates.iter().zip(0..).collect();
        updates.sort_by_key(|(update, _)| &update.name);
        let bytes = |id: SnapshotId| id.0.as_bytes().to_vec();
        let mut moves = Self::default();
        for (update, place) in updates {
            let (check, expected) = match update.expected {
                Expected::Any => (b'a', None),
                Expected::Absent => (b'n', None),
                Expected::At(id) => (b's', Some(bytes(id))),
            };
            moves.names.push(update.name.clone());
            moves.checks.push(check as i8);
            moves.expected.push(expected);
            moves.targets.push(update.target.map(bytes));
            moves.places.push(place);
        }
        moves
    }
}

impl Inner {
    pub(crate) async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        check_objects(&commit.objects)?;
        let names = commit.references.iter().map(|update| &update.name);
        names
            .into_iter()
            .try_for_each(|name| check_reference_name(name))?;
        let encoded = encode(&commit.snapshots)?;
        let tenant = self.tenant(tenant).await?;
        // In order and once each, since all of them are locked.
        let named: BTreeSet<_> = commit.after.iter().copied().collect();
        let find = |id| self.writers.find(tenant, id);
        let writers: Option<Vec<_>> = named.into_iter().map(find).collect();
        let writers = writers.ok_or_else(|| {
            StoreError::Refused("a writer that the commit names has ended".into())
        })?;
        let ids: Vec<_> = encoded.iter().map(|(id, _)| *id).collect();
        // Until the end, also if nothing waits for this commit any more.
        let _committing = self.node.guards.commit(tenant);
        let held = self.node.guards.hold_new(tenant, &ids);
        let epoch = self.node.places.epoch(tenant);
        let mut uploads = Vec::with_capacity(writers.len());
        for writer in &writers {
            // Waits for those under way.
            let all = writer.uploads.acquire_many(AT_ONCE as u32).await;
            uploads.push(all.map_err(|error| StoreError::Unavailable(Box::new(error)))?);
        }
        let put: Vec<_> = writers.iter().map(|writer| writer.waiting()).collect();
        let objects = distinct(put.iter().flatten().chain(&commit.objects));
        let bytes: usize = objects.iter().map(|object| object.data.len()).sum();
        let is_inline = bytes <= self.options.inline_bytes && objects.len() <= MAX_PACK_OBJECTS;
        let pack = match is_inline && !objects.is_empty() {
            true => {
                let mut builder = PackBuilder::new(Contents::Both);
                objects.iter().for_each(|object| builder.push(object));
                Some(builder.finish())
            }
            false => None,
        };
        // Writers that have put nothing here may be those of earlier uploads.
        let _session = match is_inline {
            true => None,
            false => {
                let session = self.session(tenant).await?;
                self.upload(tenant, &objects).await?;
                Some(session)
            }
        };
        reached(Step::Prepared);
        let brought: HashSet<_> = objects.iter().map(|object| object.key).collect();
        self.record(
            tenant,
            pack,
            roots(&commit.snapshots, &brought),
            &encoded,
            &commit,
        )
        .await?;
        reached(Step::Committed);
        for (writer, put) in writers.iter().zip(&put) {
            writer.forget(put);
        }
        for (id, record) in encoded {
            self.node.places.keep_record(epoch, id, record.into());
        }
        Ok(Committed {
            ids,
            held: Guard::new(held),
        })
    }

    async fn record(
        &self,
        tenant: i32,
        pack: Option<Pack>,
        roots: Vec<ObjectKey>,
        encoded: &[(SnapshotId, Vec<u8>)],
        commit: &Commit,
    ) -> StoreResult<()> {
        let id = self.ids.next();
        let columns = pack.as_ref().map_or_else(Columns::default, Columns::of);
        let bytes = pack.as_ref().map(|pack| &pack.bytes[..]);
        let root_kinds: Vec<_> = roots.iter().map(|root| code_of_kind(root.kind)).collect();
        let root_hashes = hashes(&roots);
        // One row each, since a statement changes no row twice.
        let trees = commit.snapshots.iter().map(|snapshot| snapshot.tree.root);
        let rows = encoded.iter().zip(trees);
        let rows: BTreeMap<_, _> = rows
            .map(|((id, record), tree)| (id.0, (tree, record)))
            .collect();
        let bytes_of = |hash: &Hash| hash.as_bytes().to_vec();
        let ids: Vec<_> = rows.keys().map(bytes_of).collect();
        let trees: Vec<_> = rows
            .values()
            .map(|(tree, _)| tree.as_ref().map(bytes_of))
            .collect();
        let records: Vec<_> = rows.into_values().map(|(_, record)| record).collect();
        let moves = Moves::of(&commit.references);
        let (columns, moves) = (&columns, &moves);
        let (root_hashes, root_kinds) = (&root_hashes, &root_kinds);
        let (ids, trees, records) = (&ids, &trees, &records);
        self.settled(move || {
            let commit = sqlx::query(COMMIT)
                .bind(self.node.id)
                .bind(tenant)
                .bind(id)
                .bind(bytes)
                .bind(&columns.hashes)
                .bind(&columns.kinds)
                .bind(&columns.starts)
                .bind(&columns.sizes)
                .bind(root_hashes)
                .bind(root_kinds)
                .bind(ids)
                .bind(trees)
                .bind(records)
                .bind(&moves.names)
                .bind(&moves.checks)
                .bind(&moves.expected)
                .bind(&moves.targets)
                .bind(&moves.places);
            commit.execute(&self.pool)
        })
        .await
    }

    /// Repeats a statement until its outcome is known, or until a time has
    /// passed. The statement must do nothing the second time.
    pub(crate) async fn settled<F>(&self, statement: impl Fn() -> F) -> StoreResult<()>
    where
        F: Future<Output = sqlx::Result<PgQueryResult>>,
    {
        let began = Instant::now();
        let mut pause = PAUSES.0;
        let mut perhaps = false;
        loop {
            let error = match statement().await {
                Ok(_) => return Ok(()),
                Err(error) => match failure::of_change(error) {
                    Failed::Refused(error) => return self.node.note(Err(error)),
                    Failed::Perhaps(error) => {
                        perhaps = true;
                        error
                    }
                    Failed::Not(error) => error,
                },
            };
            if began.elapsed() + pause > self.options.settle {
                let cause = Box::new(error);
                return Err(match perhaps {
                    true => StoreError::Unknown(cause),
                    false => StoreError::Unavailable(cause),
                });
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Joins a session of this process, or begins one.
    pub(crate) async fn session(&self, tenant: i32) -> StoreResult<Joined> {
        if let Some(joined) = self.node.sessions.join(tenant) {
            return Ok(joined);
        }
        let starting = self.node.sessions.start(self.ids.next());
        let begun = sqlx::query_scalar("SELECT store.begin_session_1($1, $2, $3)")
            .bind(starting.id())
            .bind(self.node.id)
            .bind(tenant)
            .fetch_one(&self.pool)
            .await
            .map_err(failure::of);
        let number: i32 = self.node.note(begun)?;
        Ok(starting.begun(tenant, number))
    }
}

pub(crate) fn encode(snapshots: &[Snapshot]) -> StoreResult<Vec<(SnapshotId, Vec<u8>)>> {
    let encode = |snapshot: &Snapshot| {
        let encoded = snapshot.encode();
        let (id, record) = encoded.map_err(|error| StoreError::Refused(error.to_string()))?;
        Ok((id, record.to_vec()))
    };
    snapshots.iter().map(encode).collect()
}

/// Returns each object once.
fn distinct<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<Object> {
    let mut seen = HashSet::new();
    objects
        .filter(|object| seen.insert(object.key.hash))
        .cloned()
        .collect()
}

/// Returns the roots of snapshots that the commit does not bring.
fn roots(snapshots: &[Snapshot], brought: &HashSet<ObjectKey>) -> Vec<ObjectKey> {
    let of = |snapshot: &Snapshot| {
        let key = |kind| move |hash| ObjectKey { kind, hash };
        let tree = snapshot.tree.root.map(key(Kind::Directory));
        let times = snapshot.times.map(key(Kind::Times));
        [tree, times]
    };
    let roots: HashSet<_> = snapshots.iter().flat_map(of).flatten().collect();
    roots.difference(brought).copied().collect()
}
