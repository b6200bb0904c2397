//! The memory store keeps the promises of a store, and is stricter.

#![cfg(feature = "conformance")]

use elevo_engine::MemoryStore;

elevo_engine::conformance_tests!(|| Box::new(MemoryStore::new()));
elevo_engine::inspection_tests!(|| Box::new(MemoryStore::new()));
