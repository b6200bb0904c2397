//! For any three versions, the driver `json` returns a result without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|versions: &[u8]| elevo_fuzz::merge::merge("json", versions));
