//! Whatever a chunk is on disk, it is one that can be written, or damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_store_local::read_any_chunk(data));
