//! How a layer of an image says that something is gone: by empty files with
//! names of their own.
//! <https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts>

use elevo_core::{InvalidName, Name};

const PREFIX: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What aufs keeps for itself, which says nothing about files.
const RESERVED: &[u8] = b".wh..wh.";

/// What the name of a file in a layer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whiteout {
    /// This name is gone from the directory.
    Of(Name),
    /// All that the layers below have in the directory is gone.
    Opaque,
    /// Nothing.
    Reserved,
}

impl Whiteout {
    /// `None` for the name of a file like any other.
    pub(crate) fn parse(name: &[u8]) -> Option<Result<Self, InvalidName>> {
        if name == OPAQUE {
            return Some(Ok(Self::Opaque));
        }
        if name.starts_with(RESERVED) {
            return Some(Ok(Self::Reserved));
        }
        let gone = name.strip_prefix(PREFIX)?;
        Some(Name::copy_from(gone).map(Self::Of))
    }

    /// The name of the file that says so.
    pub(crate) fn name(&self) -> Result<Name, InvalidName> {
        match self {
            Self::Of(name) => Name::copy_from(&[PREFIX, name.as_bytes()].concat()),
            Self::Opaque | Self::Reserved => Name::copy_from(OPAQUE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_gone() {
        let name = |text: &str| Name::copy_from(text.as_bytes()).unwrap();
        let parse = |text: &str| Whiteout::parse(text.as_bytes());
        assert_eq!(parse(".wh.a"), Some(Ok(Whiteout::Of(name("a")))));
        assert_eq!(parse(".wh..a"), Some(Ok(Whiteout::Of(name(".a")))));
        assert_eq!(parse(".wh..wh..opq"), Some(Ok(Whiteout::Opaque)));
        assert_eq!(parse(".wh..wh.plnk"), Some(Ok(Whiteout::Reserved)));
        for plain in ["a", ".wha", "a.wh.b"] {
            assert_eq!(parse(plain), None, "{plain}");
        }
        for hostile in [".wh.", ".wh..", ".wh..."] {
            assert!(parse(hostile).unwrap().is_err(), "{hostile}");
        }
        let gone = Whiteout::Of(name("a"));
        assert_eq!(gone.name().unwrap(), name(".wh.a"));
        assert_eq!(Whiteout::Opaque.name().unwrap(), name(".wh..wh..opq"));
    }
}
