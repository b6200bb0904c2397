//! Whatever a `.gitignore` holds, it ignores or does not, with all that is in a directory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::policy::ignores(data));
