//! Any chunk on disk is one that the store could have written, or is reported as damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_store_local::read_any_chunk(data));
