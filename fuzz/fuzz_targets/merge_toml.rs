//! For any three versions, the driver `toml` returns a result without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|versions: &[u8]| elevo_fuzz::merge::merge("toml", versions));
