//! Sparse files: an archive stores only the data between the holes.

use std::collections::VecDeque;
use std::io::Read;

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::extensions::decimal;
use super::fields::number;
use super::{BLOCK, Error, Result};

/// Maximum number of data pieces of one file.
const MOST: usize = 1 << 16;

/// The holes of a file, and the read position.
#[derive(Debug)]
pub(super) struct Sparse {
    pieces: VecDeque<Piece>,
    at: u64,
    size: u64,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    end: u64,
}

/// The next part of a file.
pub(super) enum Part {
    /// This number of zeros, which are counted as read; 0 at the end.
    Hole(usize),
    /// At most this number of bytes of the archive.
    Data(usize),
}

impl Sparse {
    /// Reads the map of a GNU header, which continues in the blocks after it.
    pub(super) fn of_gnu(
        header: &Header,
        data: u64,
        input: &mut dyn Read,
        name: &[u8],
    ) -> Result<Self> {
        let gnu = header.as_gnu().ok_or(BAD)?;
        let mut sparse = Self::new(unsigned(&gnu.realsize)?);
        sparse.extend(&gnu.sparse, name)?;
        let mut goes_on = gnu.is_extended();
        while goes_on {
            let mut block = GnuExtSparseHeader::new();
            input
                .read_exact(block.as_mut_bytes())
                .map_err(Error::read)?;
            sparse.extend(block.sparse(), name)?;
            goes_on = block.is_extended();
            if sparse.pieces.len() >= MOST {
                return Err(Error::refused(name, "it has too many holes"));
            }
        }
        sparse.checked(data, name)
    }

    /// Reads the map at the start of the content of a PAX 1.0 file: a number on
    /// each line, padded to a block.
    pub(super) fn of_pax(
        size: u64,
        data: &mut u64,
        input: &mut dyn Read,
        name: &[u8],
    ) -> Result<Self> {
        let mut lines = Lines {
            input,
            left: data,
            block: VecDeque::new(),
        };
        let mut sparse = Self::new(size);
        let count = lines.number(name)?;
        if count > MOST as u64 {
            return Err(Error::refused(name, "it has too many holes"));
        }
        for _ in 0..count {
            let (start, length) = (lines.number(name)?, lines.number(name)?);
            sparse.push(start, length, name)?;
        }
        let left = *data;
        sparse.checked(left, name)
    }

    fn new(size: u64) -> Self {
        Self {
            pieces: VecDeque::new(),
            at: 0,
            size,
        }
    }

    fn extend(&mut self, pieces: &[GnuSparseHeader], name: &[u8]) -> Result<()> {
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            self.push(unsigned(&piece.offset)?, unsigned(&piece.numbytes)?, name)?;
        }
        Ok(())
    }

    fn push(&mut self, start: u64, length: u64, name: &[u8]) -> Result<()> {
        let after = self.pieces.back().map_or(0, |last| last.end);
        let end = start.checked_add(length);
        match end.filter(|end| start >= after && *end <= self.size) {
            Some(end) => self.pieces.push_back(Piece { start, end }),
            None => return Err(Error::refused(name, "its holes contradict each other")),
        }
        Ok(())
    }

    fn checked(mut self, data: u64, name: &[u8]) -> Result<Self> {
        self.pieces.retain(|piece| piece.start < piece.end);
        let held: u64 = self
            .pieces
            .iter()
            .map(|piece| piece.end - piece.start)
            .sum();
        if held == data {
            Ok(self)
        } else {
            Err(Error::refused(name, "its holes contradict its size"))
        }
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the next part, of at most `wanted` bytes.
    pub(super) fn next(&mut self, wanted: usize) -> Part {
        while self
            .pieces
            .pop_front_if(|piece| piece.end <= self.at)
            .is_some()
        {}
        let most = |end: u64| {
            usize::try_from(end - self.at)
                .unwrap_or(usize::MAX)
                .min(wanted)
        };
        match self.pieces.front() {
            Some(piece) if piece.start <= self.at => Part::Data(most(piece.end)),
            next => {
                let zeros = most(next.map_or(self.size, |piece| piece.start));
                self.at += zeros as u64;
                Part::Hole(zeros)
            }
        }
    }

    pub(super) const fn advance(&mut self, bytes: u64) {
        self.at += bytes;
    }
}

const BAD: Error = Error::Malformed("the header of a sparse file is not valid");

fn unsigned(field: &[u8]) -> Result<u64> {
    let number = number(field).and_then(|number| u64::try_from(number).ok());
    number.ok_or(BAD)
}

/// Lines of the map of a PAX 1.0 file.
struct Lines<'a> {
    input: &'a mut dyn Read,
    /// The rest of the content.
    left: &'a mut u64,
    block: VecDeque<u8>,
}

impl Lines<'_> {
    fn number(&mut self, name: &[u8]) -> Result<u64> {
        /// More digits than any number has.
        const LONGEST: usize = 24;
        let bad = || Error::refused(name, "the map of its holes is not valid");
        let mut digits = Vec::new();
        loop {
            match self.byte()?.ok_or_else(bad)? {
                b'\n' => return decimal(&digits).ok_or_else(bad),
                digit if digits.len() < LONGEST => digits.push(digit),
                _ => return Err(bad()),
            }
        }
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        if self.block.is_empty() {
            let Some(left) = self.left.checked_sub(BLOCK) else {
                return Ok(None);
            };
            *self.left = left;
            let mut block = [0; BLOCK as usize];
            self.input.read_exact(&mut block).map_err(Error::read)?;
            self.block.extend(block);
        }
        Ok(self.block.pop_front())
    }
}
