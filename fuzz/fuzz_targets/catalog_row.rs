//! Any stored path or entry of the catalog is in its only encoding, or is rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_catalog::read_any_row(data));
