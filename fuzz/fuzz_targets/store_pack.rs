//! Any pack and any marks of a cluster's store are ones that it could have written, or are rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    elevo_store_cluster::read_any_pack(data);
    elevo_store_cluster::read_any_marks(data);
});
