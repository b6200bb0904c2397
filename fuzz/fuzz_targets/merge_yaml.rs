//! Whatever three versions hold, the driver `yaml` merges them or says why not.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|versions: &[u8]| elevo_fuzz::merge::merge("yaml", versions));
