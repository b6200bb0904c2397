//! YAML, by key.

mod events;
mod read;

use super::gaps::Comments;
use super::node::{Builder, Doc, Meanings};
use super::render::Style;
use super::{Format, extension, merge_by_key};
use crate::driver::{Driver, Merged, Versions};

/// Merges YAML by key, as [`Json`](crate::Json) does with its files: by moving
/// pieces of text, comments included.
///
/// Plain scalars are compared as they are written, since what `no` or `1.0`
/// means depends on the reader.
///
/// Refused, and so left to the driver of texts: anchors, aliases and tags, more
/// than one document, keys that are no single scalar, tabs between values,
/// `|+` and `>+`, a key that is there twice, a file of more than 4 MiB, and
/// whatever, once put together, does not read as it should.
#[derive(Clone, Copy, Debug, Default)]
pub struct Yaml;

const MAX_BYTES: usize = 4 << 20;

impl Driver for Yaml {
    fn name(&self) -> &'static str {
        "yaml"
    }

    fn claims(&self, file_name: &[u8]) -> bool {
        extension(file_name, "yaml") || extension(file_name, "yml")
    }

    fn merge(&self, versions: &Versions<'_>) -> Merged {
        merge_by_key(self, versions)
    }
}

impl Format for Yaml {
    const STYLE: Style = Style {
        comments: Comments::Hash,
        reindents: true,
        dashes: true,
        paths: false,
        quarrels: true,
    };

    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>> {
        // A carriage return by itself ends a line, too; nobody writes that.
        let lone = text.matches('\r').count() != text.matches("\r\n").count();
        if text.len() > MAX_BYTES || lone {
            return None;
        }
        read::document(text, events::read(text)?, Builder::new(meanings))
    }
}
