//! Any stream of a server gives the same events, however it is cut into pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::events::stream(data));
