//! For any pieces of a tunnel, the server accepts metadata and lists only within their limits.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_agent_link::receive_any_pieces(data));
