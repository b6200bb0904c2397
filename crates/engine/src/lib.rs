//! The state engine: trees of files that fork in O(1), and commit and diff in
//! O(changed), over any [`Store`].
//!
//! Depends on `elevo-core` and `elevo-objects`. Does not access terminals, the
//! environment or the home directory, and reads no clock and no random source:
//! times and names are passed in. The memory of an import, a checkout, a diff
//! or a collection does not grow with the size of files, trees or stores,
//! except for the names of the directories being read. Never follows a path out
//! of the directory it was given.

mod blocking;
mod change_stat;
mod checkout;
#[cfg(feature = "conformance")]
pub mod conformance;
mod copy;
mod diff;
mod disk;
mod error;
mod file;
mod gc;
pub mod guards;
mod import;
mod inspect;
pub mod lines;
mod memory;
mod numbered;
mod patch;
mod progress;
mod renames;
mod repair;
mod repository;
mod server_stamp;
mod stat_cache;
mod state;
pub mod store;
mod store_layer;
mod text;
mod tree;
mod verify;
mod walk;

pub use blocking::{POOLS, Workers};
pub use change_stat::{ChangeStat, ChangeStatTotals};
pub use checkout::{
    CheckoutOptions, CheckoutReport, CloneSource, ExistingContent, Owner, checkout, write_layer,
};
pub use copy::{Copied, CopyOptions, check_copy, copy_tenant};
pub use diff::{Change, ChangeKind, Diff};
pub use error::{Error, Result};
pub use file::{
    CHUNKS_AHEAD, ChunkReader, ContentBuilder, FilePiece, SeekTarget, content_of, read_range, seek,
};
pub use gc::{GcOptions, GcProgress, GcReport, GcRoot, GcRun, collect_garbage};
pub use guards::{Guard, Writer, WriterId};
pub use import::{
    Ignore, Ignoring, ImportOptions, Imported, Loss, LossKind, OverlayXattrs, import, import_upper,
    import_with_cache, record_checkout, scan_upper, scan_with_cache,
};
pub use inspect::{Inspect, RowRepair};
pub use lines::LineBudget;
pub use memory::MemoryStore;
pub use numbered::{NumberedEntry, NumberedTree};
pub use patch::{PatchOptions, patch, quoted, rename_patch};
pub use progress::Progress;
pub use renames::{Rename, WithRenames, renames};
pub use repair::{RepairSource, Repaired, repair};
pub use repository::{DEFAULT_CACHE_BYTES, NodeCache, Repository};
pub use server_stamp::ServerStamp;
#[cfg(any(test, feature = "fuzzing"))]
pub use stat_cache::read_any_stat_cache;
pub use stat_cache::{NewStatCache, StatCache};
pub use state::{Attributes, CommitInfo, EntryKind, Stat, StateTree};
pub use store::{
    Collection, Commit, Committed, Expected, GcScope, Held, Object, PINS, Recent, ReferenceUpdate,
    Store, StoreError, StoreResult, Swept,
};
pub use store_layer::StoreLayer;
pub use text::DEFAULT_MAX_TEXT_BYTES;
pub use verify::{Damage, DamageKind, DamagedPath, Verified, VerifyOptions, verify};
pub use walk::{Visit, Walk};
