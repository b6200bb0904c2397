//! Whatever a path or an entry of the catalog is, it is kept in this way only, or is none.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_catalog::read_any_row(data));
