//! Whatever a path is, it leads nowhere but down, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::path::path(data));
