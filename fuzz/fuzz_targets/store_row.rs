//! Whatever a row of the database is, it is written in this way only, or damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_store_local::read_any_row(data));
