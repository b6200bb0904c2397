//! [`Store`](elevo_engine::Store) of a cluster: an index, snapshots and small
//! packs in PostgreSQL, larger packs in S3. Any number of processes use it at
//! once.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Reads no
//! environment; ages are measured by the clock of the database. Never
//! interprets stored objects: trees belong to the engine.
//!
//! ```text
//! commit up to 256 KiB   one statement: pack, index, snapshots, refs
//! larger                 packs are staged in PostgreSQL, uploaded to S3 and
//!                        published; then a statement as above
//! get                    one statement for the places that are not known, which
//!                        returns small packs; then ranges of files (`blocks.rs`)
//! collection             see `node.rs` and `collect.rs`
//! upkeep                 by one process: packs of small commits move into S3
//!                        (`bundle.rs`), unused files are deleted (`files.rs`)
//! ```
//!
//! PostgreSQL decides about everything: an S3 file counts only if a row names
//! it. `docs/formats.md` draws the packs.

mod blocks;
mod bucket;
mod bundle;
mod cache;
mod collect;
mod commit;
mod credentials;
mod disk;
mod failure;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod guards;
mod hold;
mod identity;
mod inspect;
#[cfg(test)]
mod killed;
mod marks;
#[cfg(test)]
mod mixed;
mod node;
mod open;
mod options;
mod pack;
mod places;
mod read;
mod session;
mod snapshots;
mod steps;
mod store;
mod upkeep;
mod upload;
mod writers;

pub use bucket::BucketOptions;
pub use credentials::Credentials;
pub use files::Compared;
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzing::{read_any_marks, read_any_pack};
pub use identity::{FoundStore, LockedStamp};
pub use open::{OpenError, migrations};
pub use options::{BundleOptions, CacheOptions, Options};
pub use pack::InvalidPack;
pub use store::ClusterStore;
