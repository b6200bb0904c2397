//! Whatever a patch holds, it is applied to the byte, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::patch::patch(data));
