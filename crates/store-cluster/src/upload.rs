//! Objects on their way into S3: packs are staged, uploaded, and published.

use std::sync::Arc;

use elevo_engine::{Object, StoreError, StoreResult};
use elevo_objects::Kind;
use futures::stream::{self, StreamExt, TryStreamExt};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use tokio::task::spawn_blocking;

use crate::bucket::FileKey;
use crate::failure;
use crate::pack::{Contents, Pack, PackBuilder, Room, code_of_kind};
use crate::steps::{Step, reached};
use crate::store::Inner;
use crate::writers::Ahead;

/// Packs that are uploaded at once by one writer or commit.
pub(crate) const AT_ONCE: usize = 4;

const PUBLISH: &str = "SELECT store.publish_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// The columns of the index of a pack.
#[derive(Default)]
pub(crate) struct Columns {
    pub(crate) hashes: Vec<Vec<u8>>,
    pub(crate) kinds: Vec<i8>,
    pub(crate) starts: Vec<i32>,
    pub(crate) sizes: Vec<i32>,
}

impl Columns {
    pub(crate) fn of(pack: &Pack) -> Self {
        let each = || pack.entries.iter();
        Self {
            hashes: each().map(|one| one.key.hash.as_bytes().to_vec()).collect(),
            kinds: each().map(|one| code_of_kind(one.key.kind)).collect(),
            starts: each().map(|one| one.start as i32).collect(),
            sizes: each().map(|one| one.size as i32).collect(),
        }
    }
}

impl Inner {
    /// Keeps what a writer has put, and uploads full packs in the background.
    /// Waits while enough of them are under way.
    pub(crate) async fn put(
        self: &Arc<Self>,
        tenant: i32,
        ahead: Arc<Ahead>,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        ahead.put(objects);
        while ahead.has_full_pack() {
            let permit = ahead.uploads.clone().acquire_owned().await;
            let permit = permit.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
            let Some(pack) = ahead.take_full_pack() else {
                break;
            };
            let has_failed = ahead.has_failed();
            let (inner, ahead) = (self.clone(), ahead.clone());
            let upload = tokio::spawn(async move {
                let uploaded = inner.upload(tenant, &pack).await;
                ahead.note(&pack, uploaded.is_ok());
                drop(permit);
                uploaded
            });
            // Otherwise objects would gather without a bound.
            if has_failed {
                let uploaded = upload.await;
                uploaded.map_err(|error| StoreError::Unavailable(Box::new(error)))??;
            }
        }
        Ok(())
    }

    /// Stores objects in S3 that are not stored yet.
    pub(crate) async fn upload(&self, tenant: i32, objects: &[Object]) -> StoreResult<()> {
        let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
        let present = self.find(tenant, &keys).await?;
        let new = objects.iter().filter(|one| !present.contains(&one.key));
        let groups = grouped(new);
        if groups.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = groups
            .iter()
            .map(|_| (self.ids.next(), FileKey::random()))
            .collect();
        self.stage(tenant, &files).await?;
        reached(Step::Staged);
        let uploads = groups.into_iter().zip(files);
        stream::iter(uploads.map(|(group, (file, key))| async move {
            let pack = spawn_blocking(|| packed(group)).await;
            let pack = pack.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
            self.bucket.put(tenant, key, pack.bytes.clone()).await?;
            reached(Step::Uploaded);
            self.publish(tenant, file, &pack).await?;
            reached(Step::Published);
            Ok(())
        }))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
    }

    /// Records files before they are uploaded, so that none is forgotten.
    pub(crate) async fn stage(&self, tenant: i32, files: &[(i64, FileKey)]) -> StoreResult<()> {
        let ids: Vec<_> = files.iter().map(|(id, _)| *id).collect();
        let keys: Vec<_> = files.iter().map(|(_, key)| key.0.to_vec()).collect();
        sqlx::query(
            "INSERT INTO store.files (id, tenant, key, node) \
             SELECT f.id, $1, f.key, $2 FROM unnest($3::int8[], $4::bytea[]) AS f (id, key) \
             ON CONFLICT DO NOTHING",
        )
        .bind(tenant)
        .bind(self.node.id)
        .bind(ids)
        .bind(keys)
        .execute(&self.pool)
        .await
        .map(drop)
        .map_err(failure::of)
    }

    /// Uploads objects, and returns the staged files.
    pub(crate) async fn upload_staged(
        &self,
        tenant: i32,
        objects: &[Object],
    ) -> StoreResult<Vec<(i64, Pack)>> {
        let mut uploaded = Vec::new();
        for group in grouped(objects.iter()) {
            let (file, key) = (self.ids.next(), FileKey::random());
            self.stage(tenant, &[(file, key)]).await?;
            let pack = packed(group);
            self.bucket.put(tenant, key, pack.bytes.clone()).await?;
            uploaded.push((file, pack));
        }
        Ok(uploaded)
    }

    /// Makes the objects of an uploaded file readable.
    async fn publish(&self, tenant: i32, file: i64, pack: &Pack) -> StoreResult<()> {
        let id = self.ids.next();
        let columns = Columns::of(pack);
        let columns = &columns;
        self.settled(move || {
            self.publication(tenant, file, (id, pack), columns)
                .execute(&self.pool)
        })
        .await
        .map_err(|error| match error {
            // Objects that are stored and that nothing refers to are harmless.
            StoreError::Unknown(cause) => StoreError::Unavailable(cause),
            // The file is doomed; the next attempt has a new one.
            StoreError::Refused(cause) => StoreError::Unavailable(cause.into()),
            other => other,
        })
    }
}

impl Inner {
    /// The statement that publishes a file.
    pub(crate) fn publication<'a>(
        &self,
        tenant: i32,
        file: i64,
        (id, pack): (i64, &Pack),
        columns: &'a Columns,
    ) -> Query<'a, Postgres, PgArguments> {
        let has_chunks = pack.entries.iter().any(|one| one.key.kind == Kind::Chunk);
        sqlx::query(PUBLISH)
            .bind(self.node.id)
            .bind(tenant)
            .bind(file)
            .bind(id)
            .bind(pack.bytes.len() as i32)
            .bind(!has_chunks)
            .bind(&columns.hashes)
            .bind(&columns.kinds)
            .bind(&columns.starts)
            .bind(&columns.sizes)
    }
}

/// The objects of one pack.
struct Group {
    contents: Contents,
    objects: Vec<Object>,
}

/// Divides objects into packs, nodes and chunks apart.
fn grouped<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut open = [Contents::Nodes, Contents::Chunks].map(|contents| (contents, Vec::new()));
    let mut room = [Room::default(), Room::default()];
    for object in objects {
        let which = usize::from(object.key.kind == Kind::Chunk);
        if !room[which].take(object) {
            room[which] = Room::default();
            room[which].take(object);
            let (contents, objects) = &mut open[which];
            groups.push(Group {
                contents: *contents,
                objects: std::mem::take(objects),
            });
        }
        open[which].1.push(object.clone());
    }
    let rest = open.into_iter().filter(|(_, objects)| !objects.is_empty());
    groups.extend(rest.map(|(contents, objects)| Group { contents, objects }));
    groups
}

fn packed(group: Group) -> Pack {
    let mut builder = PackBuilder::new(group.contents);
    group.objects.iter().for_each(|object| builder.push(object));
    builder.finish()
}
