//! Where objects, snapshots and references live. One trait, several stores;
//! `conformance` holds every one of them to the promises written here.

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};

use crate::guards::Guard;

/// An object on its way into a store.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key: the hash of `data` in the domain of its kind.
    pub key: ObjectKey,
    /// Its bytes.
    pub data: Bytes,
}

/// What becomes visible and durable together.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Objects the snapshots need that may not be stored yet.
    pub objects: Vec<Object>,
    /// New snapshots. Storing one that is there already changes nothing.
    pub snapshots: Vec<Snapshot>,
    /// References to move. If one is not where it is expected, nothing of the
    /// commit happens.
    pub references: Vec<ReferenceUpdate>,
}

/// What was committed.
#[derive(Debug)]
pub struct Committed {
    /// The snapshots, in their order.
    pub ids: Vec<SnapshotId>,
    /// Keeps them with all that they need, from before anybody could collect
    /// them.
    pub held: Guard,
}

/// Moves a reference, if it is where the caller thinks it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceUpdate {
    /// Which one: 1 to [`MAX_REFERENCE_BYTES`] bytes.
    pub name: String,
    /// What it must point to now.
    pub expected: Expected,
    /// Where it points to afterwards; `None` removes it.
    pub target: Option<SnapshotId>,
}

/// What a reference must be for an update of it to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything, or nothing.
    Any,
    /// Not there.
    Absent,
    /// Pointing to this snapshot.
    At(SnapshotId),
}

impl Expected {
    /// Whether a reference that is `current` meets this expectation.
    pub fn holds(self, current: Option<SnapshotId>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::At(id) => current == Some(id),
        }
    }
}

/// The longest name of a reference.
pub const MAX_REFERENCE_BYTES: usize = 255;

/// What went wrong in a store. A new kind only where a caller would act
/// differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A reference was not what the commit expected; read it and try again.
    #[error("reference `{name}` has moved")]
    ReferenceMoved {
        /// Which one.
        name: String,
        /// Where it points to now.
        current: Option<SnapshotId>,
    },
    /// The call itself cannot be served: a bound exceeded, a hash that does
    /// not match its bytes, a snapshot whose tree is not stored.
    #[error("refused: {0}")]
    Refused(String),
    /// What was read back is not what was written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// This store cannot be written to.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The disk has no room for it. Whether a commit happened is known: it did
    /// not.
    #[error("the disk is full")]
    Full,
    /// The storage below failed.
    #[error("storage failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Result of a call into a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Content-addressed objects, snapshots and references of many tenants.
///
/// Promises, kept by every implementation:
///
/// 1. *Tenants are separate*: nothing put for one tenant is seen, found
///    present or moved by a call for another.
/// 2. *Answers keep the order of the question*: one answer per key, in place;
///    asking twice in a call answers twice.
/// 3. *Objects are immutable*: putting a key that is there changes nothing. A
///    store never returns bytes other than those put.
/// 4. *`put` is a promise for later*: what it wrote can be read at once, and
///    is durable no later than the next `commit` that returns. A crash before
///    that may lose it, in any part.
/// 5. *`commit` is all or nothing, and durable*: when it returns `Ok`, all of
///    it survives power loss, together with everything `put` before it began;
///    when it returns an error, none of its snapshots and references are
///    visible (its objects may be).
/// 6. *Snapshots need their roots*: a snapshot whose root nodes are neither
///    stored nor in the commit is refused.
/// 7. *References move one at a time*: of two commits that expect the same
///    value of a reference, one fails with [`StoreError::ReferenceMoved`].
/// 8. *Batches are the unit of work*: a call may cost a network round trip,
///    whatever the number of keys in it.
/// 9. *Work in flight is safe from collections*: nothing that was put or found
///    present while a guard of [`writing`](Self::writing) was held is collected
///    until that guard is dropped, and nothing that a snapshot needs on which
///    there is a guard of [`hold`](Self::hold). `commit` keeps what it writes
///    and all that its snapshots need, if it began while the objects it did not
///    bring were kept by one of these; the guard that it answers with is one
///    of `hold` on its snapshots.
///
/// Calls may block the thread for as long as a disk takes; an implementation
/// over a network suspends instead. Dropping a future leaves the store whole.
#[async_trait]
pub trait Store: Send + Sync {
    /// The bytes of objects, `None` for each that is not stored.
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>>;

    /// Which objects are stored.
    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Stores objects ahead of the commit that will need them.
    async fn put(&self, tenant: TenantId, objects: Vec<Object>) -> StoreResult<()>;

    /// Stores objects and snapshots and moves references, atomically; returns
    /// when all of it is durable.
    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed>;

    /// Snapshots by id, `None` for each that is not stored.
    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>>;

    /// Ids of stored snapshots, in the order of their bytes, after `after`, at
    /// most `limit`.
    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>>;

    /// Where a reference points to.
    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>>;

    /// References whose name begins with `prefix`, in the order of their
    /// names, after `after`, at most `limit`.
    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>>;

    /// About how many bytes a tenant's objects have, as they are stored. Grows
    /// with every object that is put or committed; one that was there may count
    /// again. Falls when a collection removes objects, by their average size. For
    /// limits, not for bills.
    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64>;

    /// Announces somebody who puts objects, or relies on finding some, before
    /// the commit that needs them. A collection does not begin to mark before
    /// those have ended who began earlier: not for long-lived work.
    async fn writing(&self, tenant: TenantId) -> StoreResult<Guard>;

    /// Keeps snapshots with all that they need; `None` if one is not stored.
    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Guard>>;

    /// Begins a collection of one tenant's garbage. Refused while another one
    /// is under way. Dropping it before its end leaves garbage and nothing else.
    async fn collection(
        &self,
        tenant: TenantId,
        depth: Depth,
    ) -> StoreResult<Box<dyn Collection + '_>>;
}

/// What a collection looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What is new since the last one. Finds garbage only below snapshots that
    /// are dropped now and were not needed then.
    Young,
    /// Everything.
    Full,
}

/// What became of a call to [`Collection::sweep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects that were looked at.
    pub seen: u64,
    /// Of these, removed ones.
    pub removed: u64,
}

/// One tenant's garbage being collected: marking what is needed, then sweeping
/// the rest. In this order: wait until there are no [older
/// writers](Self::older_writers); mark whatever the roots and
/// [arrivals](Self::arrivals) need; [close](Self::close), or mark what arrived
/// meanwhile; [remove](Self::remove)
/// snapshots without a mark, then what nothing needs; finish.
///
/// What is put, committed or found present from the beginning on counts as
/// kept, by itself, without what it refers to.
#[async_trait]
pub trait Collection: Send + Sync {
    /// What this looks at: everything also if the last one did not finish.
    fn depth(&self) -> Depth;

    /// How many are writing who began before this did.
    fn older_writers(&self) -> usize;

    /// Snapshots that are held, and those that were committed while there were
    /// older writers; each is told once.
    fn arrivals(&self) -> Vec<SnapshotId>;

    /// Which of them were marked since the last full collection began.
    async fn marked(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Marks objects and snapshots as needed, also those that are not stored.
    /// Of each node and snapshot, whether this is the first time since the last
    /// full collection began; of a chunk, anything.
    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Ends marking, unless somebody came for a snapshot that is neither marked
    /// nor kept. From then on nobody can [hold](Store::hold) such a one.
    fn close(&self) -> bool;

    /// Snapshots that are neither marked nor kept, after `after`, at most
    /// `limit`.
    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>>;

    /// Removes those of `keys`, objects and snapshots, that are neither marked
    /// nor kept; says which. Snapshots are durably gone when this returns, since
    /// what they need goes next.
    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>>;

    /// Goes on to look at all objects in the order of the store, some at a
    /// time, and removes what is neither marked nor kept, or counts it only;
    /// `None` at the end.
    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>>;

    /// Ends the collection: the next one may be a young one.
    async fn finish(self: Box<Self>) -> StoreResult<()>;
}

/// Refuses reference names no store takes: empty, too long, or with control
/// characters in them.
pub fn check_reference_name(name: &str) -> StoreResult<()> {
    if name.is_empty() || name.len() > MAX_REFERENCE_BYTES || name.contains(char::is_control) {
        return Err(StoreError::Refused(format!(
            "a reference's name has 1 to {MAX_REFERENCE_BYTES} bytes and no control characters"
        )));
    }
    Ok(())
}
