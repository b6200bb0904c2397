use std::ffi::OsString;

use clap::Args;
use elevo_engine::StateTree;
use serde_json::json;

use crate::local::revision::{self, HEAD};
use crate::local::session::Session;
use crate::local::tree_path::tree_path;
use crate::local::wait::wait;
use crate::output::json::base64;

/// Print the content of a file in a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json, prints a line with an object for each piece of the file: its
`offset`, its `length` and its content as `text`, or as `base64` if it is not
UTF-8.

Examples:
  elevo cat README.md                          in the newest commit
  elevo cat v1:data/big.bin --range 1000:16 | xxd
  elevo cat v1:log.txt --range 5000:           from there to the end")]
pub(crate) struct Cat {
    /// The file, from the root of the snapshot; by default of `head`. A path that
    /// contains `:` needs REV
    #[arg(value_name = "[REV:]PATH")]
    file: OsString,

    /// Only LENGTH bytes from OFFSET; without LENGTH, to the end
    #[arg(long, value_name = "OFFSET:LENGTH", value_parser = range)]
    range: Option<Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    offset: u64,
    length: u64,
}

const ALL: Range = Range {
    offset: 0,
    length: u64::MAX,
};

fn range(text: &str) -> Result<Range, String> {
    let number = |text: &str, default| match text {
        "" => Ok(default),
        text => text
            .parse()
            .map_err(|_| format!("`{text}` is not a number of bytes")),
    };
    let (offset, length) = text
        .split_once(':')
        .ok_or("a range is OFFSET:LENGTH, in bytes")?;
    Ok(Range {
        offset: number(offset, 0)?,
        length: number(length, u64::MAX)?,
    })
}

/// Bytes read at a time.
const PIECE: usize = 1024 * 1024;

pub(crate) fn run(session: &mut Session, args: &Cat) -> anyhow::Result<()> {
    let (revision, path) = match revision::with_path(&args.file) {
        Ok((revision, Some(path))) => (revision, path),
        _ => (HEAD, &*args.file),
    };
    let path = tree_path(path)?;
    let view = session.view()?;
    let (_, snapshot) = view.resolve(revision)?;
    let tree = StateTree::at(&view.repository, &snapshot);
    let Range { offset, length } = args.range.unwrap_or(ALL);
    let (mut at, end) = (offset, offset.saturating_add(length));
    loop {
        let wanted = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
        let piece = wait(tree.read_at(&path, at, wanted))?;
        if piece.is_empty() {
            return Ok(());
        }
        let taken = match session.output.is_json() {
            true => print_json(session, at, &piece)?,
            false => {
                session.output.bytes(&piece)?;
                piece.len()
            }
        };
        at += taken as u64;
    }
}

/// Prints a piece, without a character that is cut off at its end. Returns the
/// number of printed bytes.
fn print_json(session: &mut Session, offset: u64, piece: &[u8]) -> anyhow::Result<usize> {
    let whole = whole_characters(piece);
    let value = match whole.map(|length| &piece[..length]) {
        Some(text) => json!({
            "offset": offset,
            "length": text.len(),
            "text": String::from_utf8_lossy(text),
        }),
        None => json!({
            "offset": offset,
            "length": piece.len(),
            "base64": base64(piece),
        }),
    };
    session.output.value(&value)?;
    Ok(whole.unwrap_or(piece.len()))
}

/// The length of the text in a piece, without a character that the next piece
/// completes. `None` if the piece is not UTF-8.
fn whole_characters(piece: &[u8]) -> Option<usize> {
    match std::str::from_utf8(piece) {
        Ok(_) => Some(piece.len()),
        Err(error) if error.error_len().is_none() && piece.len() == PIECE => {
            Some(error.valid_up_to())
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_may_leave_out_either_number() {
        let parse = |text| range(text).map(|range| (range.offset, range.length));
        assert_eq!(parse("3:4"), Ok((3, 4)));
        assert_eq!(parse("3:"), Ok((3, u64::MAX)));
        assert_eq!(parse(":4"), Ok((0, 4)));
        assert!(parse("3").is_err() && parse("a:1").is_err() && parse("-1:1").is_err());
    }

    #[test]
    fn a_character_is_not_cut_where_a_piece_ends() {
        let mut piece = vec![b'a'; PIECE];
        assert_eq!(whole_characters(&piece), Some(PIECE));
        piece[PIECE - 1] = 0xc3;
        assert_eq!(whole_characters(&piece), Some(PIECE - 1));
        assert_eq!(whole_characters(b"a\xc3"), None);
        assert_eq!(whole_characters(b"\xff"), None);
    }
}
