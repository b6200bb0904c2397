//! Whiteouts: empty files with special names that mark deletions in a layer of
//! an image.
//! <https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts>

use elevo_core::{InvalidName, Name};

const PREFIX: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Names that aufs reserves; they do not refer to files.
const RESERVED: &[u8] = b".wh..wh.";

/// The meaning of a special name in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whiteout {
    /// This name is deleted from the directory.
    Of(Name),
    /// All entries of the layers below are deleted from the directory.
    Opaque,
    /// A name that aufs reserves. It does not refer to a file.
    Reserved,
}

impl Whiteout {
    /// Returns `None` for an ordinary name.
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

    /// The name of the whiteout file.
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
    fn whiteouts_are_parsed_from_names() {
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
