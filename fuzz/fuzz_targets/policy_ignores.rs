//! Any `.gitignore` ignores a directory together with everything in it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::policy::ignores(data));
