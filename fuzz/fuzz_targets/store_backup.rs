//! Any list of a backup names files of one directory, or is reported as damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_store_local::read_any_backup(data));
