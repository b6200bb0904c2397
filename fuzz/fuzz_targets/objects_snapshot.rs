//! Whatever a snapshot is, it is the encoding of what is read from it, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::objects::snapshot(data));
