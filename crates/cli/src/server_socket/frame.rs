use std::io::{self, Read, Write};

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Request = b'R',
    Input = b'I',
    Output = b'O',
    Errors = b'E',
    Exit = b'X',
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Request,
        Self::Input,
        Self::Output,
        Self::Errors,
        Self::Exit,
    ];
}

/// Maximum bytes in the payload of a frame.
pub(super) const LARGEST: usize = 1 << 20;

pub(super) fn strange() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a frame of an Elevo server")
}

pub(super) fn write(out: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).ok();
    let length = length.filter(|length| *length as usize <= LARGEST);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "too long"))?;
    let mut frame = Vec::with_capacity(5 + payload.len());
    frame.push(kind as u8);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(payload);
    out.write_all(&frame)
}

pub(super) fn read(input: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind);
    let length = u32::from_be_bytes(length) as usize;
    if length > LARGEST {
        return Err(strange());
    }
    let mut payload = vec![0; length];
    input.read_exact(&mut payload)?;
    Ok((kind.ok_or_else(strange)?, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_nothing_else_is() {
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Output, b"text").unwrap();
        write(&mut bytes, Kind::Exit, &[7]).unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(read(&mut input).unwrap(), (Kind::Output, b"text".to_vec()));
        assert_eq!(read(&mut input).unwrap(), (Kind::Exit, vec![7]));
        assert!(read(&mut input).is_err());
        assert!(read(&mut &b"Z\0\0\0\0"[..]).is_err());
        assert!(read(&mut &b"O\xff\xff\xff\xff"[..]).is_err());
        assert!(read(&mut &b"O\0\0\0\x05abc"[..]).is_err());
        assert!(write(&mut bytes, Kind::Output, &vec![0; LARGEST + 1]).is_err());
    }
}
