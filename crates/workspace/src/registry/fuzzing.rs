//! The entry point of the fuzzer and of the test that replays its corpus.

use super::{LogLine, LogState};
use crate::record::RecordJson;

/// Parses any bytes as the log of a registry, for fuzzers and tests.
///
/// # Panics
///
/// If the parsed records change when they are written and parsed again.
#[doc(hidden)]
pub fn read_any_registry(log: &[u8]) {
    let mut state = LogState::default();
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        if state.apply(line).is_err() {
            break;
        }
    }
    let written = state.records.values().map(RecordJson::from).collect();
    let mut again = LogState::default();
    assert_eq!(again.apply(&LogLine::Set(written).text()), Ok(()));
    assert_eq!(again.records, state.records);
    for id in state.records.keys() {
        let removed = again.apply(&LogLine::Remove(id.to_string()).text());
        assert_eq!(removed, Ok(()));
    }
    assert!(again.records.is_empty());
}
