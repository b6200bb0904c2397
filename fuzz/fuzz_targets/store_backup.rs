//! Whatever the list of a backup is, it names files of one directory, or is damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_store_local::read_any_backup(data));
