//! Reads records without checking the chain.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Result;
use crate::line::{NONE, check_line};
use crate::segment::{self, Lines, Piece};

/// Calls `each` with the number and the content of every readable record after
/// record `after`, oldest first. Stops early if `each` returns `false`.
pub fn read(
    directory: &Path,
    after: u64,
    mut each: impl FnMut(u64, Map<String, Value>) -> bool,
) -> Result<()> {
    let (segments, _) = segment::list(directory)?;
    for (index, (_, path)) in segments.iter().enumerate() {
        // All records of this segment precede the first record of the next
        // segment.
        let next = segments.get(index + 1).map(|(first, _)| *first);
        if next.is_some_and(|next| next <= after + 1) {
            continue;
        }
        let mut lines = Lines::open(path)?;
        while let Some(piece) = lines.next()? {
            let Piece::Line(line) = piece else { break };
            let Ok((line, _)) = check_line(line, &NONE) else {
                continue;
            };
            if line.head.number > after && !each(line.head.number, line.record) {
                return Ok(());
            }
        }
    }
    Ok(())
}
