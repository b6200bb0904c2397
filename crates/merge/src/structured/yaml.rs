//! Merges YAML by key.

mod events;
mod read;

use super::gaps::Comments;
use super::node::{Builder, Doc, Meanings};
use super::render::Style;
use super::{Format, extension, merge_by_key};
use crate::driver::{Driver, Merged, Versions};

/// Merges YAML by key, as [`Json`](crate::Json) does for JSON: by moving pieces
/// of text, comments included.
///
/// Plain scalars are compared as written, since the meaning of `no` or `1.0`
/// depends on the reader.
///
/// Rejects, and so leaves to the text driver: anchors, aliases and tags, more
/// than one document, keys that are not a single scalar, tabs between values,
/// `|+` and `>+`, duplicate keys, files of more than 4 MiB, and merges whose
/// result does not have the planned meaning.
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
        comments_conflict: true,
    };

    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>> {
        // A lone carriage return also ends a line in YAML, but is too rare to
        // support.
        let lone = text.matches('\r').count() != text.matches("\r\n").count();
        if text.len() > MAX_BYTES || lone {
            return None;
        }
        read::document(text, events::read(text)?, Builder::new(meanings))
    }
}
