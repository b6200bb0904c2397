//! Storage of objects, snapshots and refs. One trait, several stores;
//! `conformance` checks the promises written here on every one of them.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::{Retry, TenantId, Timestamp};
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};

use crate::guards::{Guard, Writer, WriterId};

/// An object on its way into a store.
#[derive(Clone, Debug)]
pub struct Object {
    /// Hash of `data` in the domain of its kind.
    pub key: ObjectKey,
    /// Encoded bytes of the object.
    pub data: Bytes,
}

/// Objects, snapshots and refs that become visible and durable together.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Objects the snapshots need that may not be stored yet.
    pub objects: Vec<Object>,
    /// New snapshots. Storing one that is already stored changes nothing.
    pub snapshots: Vec<Snapshot>,
    /// Refs to move. If one does not have its expected value, nothing of the
    /// commit happens.
    pub references: Vec<ReferenceUpdate>,
    /// Writers whose objects the snapshots need. Everything they have put
    /// becomes durable with this commit, so they must still be registered.
    pub after: Vec<WriterId>,
}

/// Result of a commit.
#[derive(Debug)]
pub struct Committed {
    /// Ids of the snapshots, in the order of the commit.
    pub ids: Vec<SnapshotId>,
    /// Protects the snapshots and everything they need; acquired before a
    /// collection could delete them.
    pub held: Guard,
}

/// Snapshots that a collection does not delete, with their records.
#[derive(Debug)]
pub struct Held {
    /// Protects the snapshots and everything they need until it is dropped.
    pub guard: Guard,
    /// The snapshots, in the order of their ids in the call.
    pub snapshots: Vec<Snapshot>,
}

/// Moves a ref, if it has the value that the caller expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceUpdate {
    /// Name of the ref: 1 to [`MAX_REFERENCE_BYTES`] bytes.
    pub name: String,
    /// Value that the ref must have now.
    pub expected: Expected,
    /// New value; `None` deletes the ref.
    pub target: Option<SnapshotId>,
}

/// Value that a ref must have for an update to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any value, or none.
    Any,
    /// The ref does not exist.
    Absent,
    /// The ref points to this snapshot.
    At(SnapshotId),
}

impl Expected {
    /// Whether a ref with the value `current` meets this expectation.
    pub fn holds(self, current: Option<SnapshotId>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::At(id) => current == Some(id),
        }
    }
}

/// Maximum length of the name of a ref.
pub const MAX_REFERENCE_BYTES: usize = 255;

/// Failure of a store. Separate variants exist only where a caller would act
/// differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A ref does not have the value that the commit expected; read it and
    /// retry.
    #[error("reference `{name}` has moved")]
    ReferenceMoved {
        /// Name of the ref.
        name: String,
        /// Current value of the ref.
        current: Option<SnapshotId>,
    },
    /// The call is invalid: it exceeds a limit, a hash does not match its
    /// bytes, or a snapshot's tree is not stored.
    #[error("refused: {0}")]
    Refused(String),
    /// The stored bytes are not those that were written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// This store cannot be written to.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The disk is full. It is certain that a failed commit did not happen.
    #[error("the disk is full")]
    Full,
    /// The storage cannot be reached. It is certain that the call changed
    /// nothing.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Other processes have declared this store lost, and it changes nothing any
    /// more. The process must end and start again.
    #[error("this store was declared lost; restart the process")]
    Lost,
    /// The outcome of a commit is not known, although the store has tried to find
    /// out.
    #[error("the outcome of the commit is unknown")]
    Unknown(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The storage of this machine failed.
    #[error("storage failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether the same call may succeed later, and whether it is certain that
    /// the failed one changed nothing: unless this is [`Retry::Unknown`], it is.
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Refused(_) | Self::Damaged(_) | Self::ReadOnly => Retry::Never,
            Self::ReferenceMoved { .. } | Self::Lost => Retry::AfterChange,
            Self::Full | Self::Unavailable(_) => Retry::Later,
            Self::Unknown(_) | Self::Storage(_) => Retry::Unknown,
        }
    }
}

/// Result of a call into a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Content-addressed objects, snapshots and refs of many tenants.
///
/// Every implementation keeps these promises:
///
/// 1. *Tenants are separate*: a call for one tenant never returns, finds or
///    moves anything of another.
/// 2. *Results keep the order of the keys*: one result per key, in its
///    position; a key given twice gets two results.
/// 3. *Objects are immutable*: putting a key that is stored changes nothing. A
///    store never returns bytes other than those put.
/// 4. *`put` defers durability*: while the writer is registered, its objects
///    can be read at once through the same store. They are durable, and can be
///    read through every other store over the same data, once a `commit` that
///    [names](Commit::after) the writer has returned. A crash before that may
///    lose any part of them.
/// 5. *`commit` is all or nothing, and durable*: when it returns `Ok`, all of
///    it survives power loss, together with everything that the writers it
///    names had put before it began; when it returns an error, none of its
///    snapshots and refs are visible (its objects may be). Only an error whose
///    [retry](StoreError::retry) is unknown leaves that open.
/// 6. *Snapshots need their roots*: a commit is rejected if a root node of one
///    of its snapshots is neither durable, nor in the commit, nor put by a
///    writer that the commit names. A store in which any commit makes all
///    objects durable accepts every stored root.
/// 7. *Refs move one at a time*: of two commits that expect the same value of a
///    ref, one fails with [`StoreError::ReferenceMoved`].
/// 8. *Batches are the unit of work*: a call may cost a network round trip,
///    regardless of the number of keys in it.
/// 9. *Work in progress is safe from collections*: a collection deletes no
///    object that was put by a [writer](Self::writing), or found present while
///    it was registered, until that writer is dropped, and no object that a
///    snapshot under a [`hold`](Self::hold) guard needs. `commit` protects the objects it writes
///    and everything its snapshots need, provided that a writer or one of these
///    guards protected the objects that are not part of the commit when it
///    began; the guard it returns is a `hold` guard on its snapshots.
/// 10. *A lost store changes nothing*: once other processes act on the loss of
///    this one, its `put`, `commit` and `hold` fail with [`StoreError::Lost`].
///
/// A call may block the thread for as long as a disk takes; an implementation
/// over a network suspends instead. Dropping a future leaves the store
/// consistent.
#[async_trait]
pub trait Store: Send + Sync {
    /// Returns the bytes of objects, `None` for each that is not stored.
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>>;

    /// Returns whether each object is stored, so that it need not be put. May
    /// return false for an object that no commit has made durable, and has to
    /// unless any later commit of this store makes it durable.
    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Stores objects ahead of the commit that will need them, and that names
    /// the writer.
    async fn put(&self, tenant: TenantId, writer: &Writer, objects: Vec<Object>)
    -> StoreResult<()>;

    /// Stores objects and snapshots and moves refs, atomically; returns
    /// when all of it is durable.
    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed>;

    /// Returns snapshots by id, `None` for each that is not stored.
    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>>;

    /// Returns ids of stored snapshots after `after`, in byte order, at most
    /// `limit`.
    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>>;

    /// Returns ids of recent snapshots after `after`, in byte order, at most
    /// `limit`. A store whose writers share a clock measures the age of a
    /// snapshot by that clock, from when it was stored; another store compares
    /// when the snapshot was [`created`](Snapshot::created) with the caller's
    /// clock.
    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>>;

    /// Returns the snapshot that a ref points to.
    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>>;

    /// Returns refs whose name begins with `prefix`, after `after`, in the
    /// order of their names, at most `limit`.
    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>>;

    /// Returns the approximate size of a tenant's objects as stored. Grows with
    /// every object put or committed; an object that was already stored may be
    /// counted again. Falls when a collection deletes objects, by their average
    /// size. For quotas, not for billing.
    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64>;

    /// Registers a writer that puts objects, or relies on existing ones, ahead
    /// of its commit. A collection waits for earlier writers before it marks,
    /// so do not hold this for long.
    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer>;

    /// Protects snapshots and everything they need, and returns their records;
    /// `None` if one is not stored.
    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>>;

    /// Begins a collection of one tenant's garbage. Rejected while another one
    /// is running. Dropping it early only leaves garbage.
    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>>;
}

/// The time until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    /// Length of the time.
    pub age: Duration,
    /// Its end by the caller's clock, for stores without a clock.
    pub now: Timestamp,
}

impl Recent {
    /// Its beginning by the caller's clock.
    pub fn since(self) -> Timestamp {
        const SECOND: i64 = 1_000_000_000;
        let nanos = i64::from(self.now.nanos()) - i64::from(self.age.subsec_nanos());
        let age = i64::try_from(self.age.as_secs()).unwrap_or(i64::MAX);
        let seconds = self.now.seconds().saturating_sub(age);
        let seconds = seconds.saturating_add(nanos.div_euclid(SECOND));
        let nanos = u32::try_from(nanos.rem_euclid(SECOND)).unwrap_or_default();
        Timestamp::new(seconds, nanos).unwrap_or(Timestamp::EPOCH)
    }
}

/// Scope of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcScope {
    /// Objects that are new since the last collection. Deletes only snapshots
    /// that no earlier collection has marked since the last full one, and the
    /// objects that only they need.
    Young,
    /// All objects.
    Full,
}

/// Result of a call to [`Collection::sweep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects examined.
    pub seen: u64,
    /// Objects deleted, or to be deleted if the sweep only counts.
    pub removed: u64,
}

/// A collection of one tenant's garbage: it marks needed objects, then sweeps
/// the rest. The order of calls: wait until there are no [older
/// writers](Self::older_writers); mark everything that the roots and
/// [arrivals](Self::arrivals) need; [close](Self::close), or mark the new
/// arrivals and try again; [remove](Self::remove) snapshots without a mark,
/// then objects that nothing needs; finish.
///
/// An object that is put, committed or found present after the collection began
/// counts as kept. The objects it refers to do not.
#[async_trait]
pub trait Collection: Send + Sync {
    /// Scope of this collection. It is always full if the previous collection
    /// did not finish.
    fn scope(&self) -> GcScope;

    /// Number of active writers that began before this collection.
    async fn older_writers(&self) -> StoreResult<usize>;

    /// Returns the snapshots that are held, and those committed while there
    /// were older writers. Each call returns only new ones.
    async fn arrivals(&self) -> StoreResult<Vec<SnapshotId>>;

    /// Returns whether each key was marked since the last full collection
    /// began.
    async fn marked(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Marks objects and snapshots as needed, whether they are stored or not.
    /// Returns for each node and snapshot whether this is its first mark since
    /// the last full collection began; the value for a chunk is unspecified.
    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Ends marking and returns true, unless a caller holds a snapshot that is
    /// neither marked nor kept. From then on, [`hold`](Store::hold) fails for
    /// such a snapshot.
    async fn close(&self) -> StoreResult<bool>;

    /// Returns snapshots after `after` that are neither marked nor kept, at
    /// most `limit`.
    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>>;

    /// Deletes those of `keys`, objects and snapshots, that are neither marked
    /// nor kept, and returns which. Deleted snapshots are durably gone when
    /// this returns, since the objects they need are deleted next.
    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Examines the next batch of objects, in the order of the store, and
    /// deletes those that are neither marked nor kept, or only counts them.
    /// Returns `None` after the last batch.
    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>>;

    /// Ends the collection. The next one may be a young one.
    async fn finish(self: Box<Self>) -> StoreResult<()>;
}

/// First part of the names of pins: refs that keep their snapshot, and not its
/// history.
pub const PINS: &str = "pins/";

/// Rejects names of refs that no store accepts: empty, too long, or with
/// control characters.
pub fn check_reference_name(name: &str) -> StoreResult<()> {
    if name.is_empty() || name.len() > MAX_REFERENCE_BYTES || name.contains(char::is_control) {
        return Err(StoreError::Refused(format!(
            "the name of a ref must have 1 to {MAX_REFERENCE_BYTES} bytes and no control characters"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_now_begins_its_length_earlier() {
        let since = |seconds, nanos, age| {
            let now = Timestamp::new(seconds, nanos).unwrap();
            let since = Recent { age, now }.since();
            (since.seconds(), since.nanos())
        };
        assert_eq!(since(10, 5, Duration::from_secs(3)), (7, 5));
        assert_eq!(since(10, 5, Duration::from_nanos(6)), (9, 999_999_999));
        assert_eq!(since(1, 0, Duration::from_millis(2500)), (-2, 500_000_000));
        let (seconds, _) = since(0, 0, Duration::MAX);
        assert!(seconds < -i64::MAX + 10, "{seconds}");
    }

    #[test]
    fn only_some_failures_leave_the_outcome_open() {
        let cause = || "a cause".into();
        for (error, retry) in [
            (StoreError::Unavailable(cause()), Retry::Later),
            (StoreError::Full, Retry::Later),
            (StoreError::Lost, Retry::AfterChange),
            (StoreError::Unknown(cause()), Retry::Unknown),
            (StoreError::Storage(cause()), Retry::Unknown),
            (StoreError::ReadOnly, Retry::Never),
        ] {
            assert_eq!(error.retry(), retry, "{error}");
        }
    }
}
