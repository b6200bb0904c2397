//! Reading any archive ends within its limits and without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|archive: &[u8]| elevo_archive::read_any_archive(archive));
