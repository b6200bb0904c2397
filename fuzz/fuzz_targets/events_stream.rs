//! Whatever a server streams, it is the same events wherever it is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::events::stream(data));
