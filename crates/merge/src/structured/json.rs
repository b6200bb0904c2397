//! Merges JSON by key.

use std::ops::Range;

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, ParseOptions, Scanner, ScannerOptions, parse_to_ast};

use super::commas::{self, Read};
use super::gaps::Comments;
use super::node::{Builder, Container, Doc, MAX_DEPTH, MAX_NODES, Meanings, Node};
use super::render::Style;
use super::{Format, extension, merge_by_key};
use crate::driver::{Driver, Merged, Versions};

/// Merges JSON and JSONC by key. It moves pieces of text, so that unchanged
/// values keep their bytes.
///
/// - An object is merged key by key; a key that one side removed and the other
///   changed is a conflict.
/// - A list whose elements are objects with distinct `id`s (or `key`s, or
///   `name`s) is merged element by element, with the additions of each side; an
///   order that both changed is a conflict. Any other list is merged like lines
///   of text, and a conflict in it covers the whole list. The place of a
///   conflict names an element by its index in ours, or in theirs if only theirs
///   has it.
/// - Comments and white space are merged like values: a comment that both sides
///   changed is a conflict. Where both formatted the same place differently,
///   without touching a comment, ours is kept: this is the only case in which
///   swapping the sides changes the result.
/// - Numbers are compared by value, strings by their unescaped text.
///
/// Rejects files that are not valid JSON, have a duplicate key, nest deeper
/// than 128, or have more than 250,000 values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl Driver for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn claims(&self, file_name: &[u8]) -> bool {
        extension(file_name, "jsonc")
            || extension(file_name, "json") && !extension(file_name, "crdt.json")
    }

    fn merge(&self, versions: &Versions<'_>) -> Merged {
        merge_by_key(self, versions)
    }
}

impl Format for Json {
    const STYLE: Style = Style {
        comments: Comments::Slashes,
        reindents: true,
        dashes: false,
        paths: false,
        comments_conflict: true,
    };

    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>> {
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        if !is_strict(body) {
            return None;
        }
        let options = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let parsed = parse_to_ast(body, &CollectOptions::default(), &options).ok()?;
        let value = parsed.value?;
        let mut reader = Reader {
            text: body,
            builder: Builder::new(meanings),
        };
        let root = reader.node(&value)?;
        let range = value.range();
        Some(Doc {
            head: &text[..text.len() - body.len() + range.start],
            root,
            tail: &body[range.end..],
        })
    }
}

/// Whether the text is valid where the parser is lenient, and within our
/// limits. Checked before a tree is built.
fn is_strict(text: &str) -> bool {
    let options = ScannerOptions {
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let mut scanner = Scanner::new(text, &options);
    let mut depth = 0usize;
    let mut end = 0;
    // Bounds the tokens: an entry with a scalar has four (key, colon, value and
    // comma).
    for _ in 0..=4 * MAX_NODES {
        let Ok(token) = scanner.scan() else {
            return false;
        };
        let (from, to) = (scanner.token_start(), scanner.token_end());
        if !text[end..from]
            .bytes()
            .all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
        {
            return false;
        }
        end = to;
        match token {
            None => return true,
            Some(Token::OpenBrace | Token::OpenBracket) if depth == MAX_DEPTH => return false,
            Some(Token::OpenBrace | Token::OpenBracket) => depth += 1,
            Some(Token::CloseBrace | Token::CloseBracket) => depth = depth.saturating_sub(1),
            Some(Token::Number(number)) if !is_number(number) => return false,
            Some(Token::String(_)) if text[from..to].bytes().any(|b| b < b' ') => return false,
            Some(_) => {}
        }
    }
    false
}

/// Whether the text is a number by RFC 8259.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent
            .is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// Writes a number in the spelling that all equal numbers share: digits without
/// zeros at either end, and the power of ten.
pub(super) fn canonical_number(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let trimmed = digits.trim_end_matches('0');
    let zeros = digits.len() - trimmed.len();
    let significant = trimmed.trim_start_matches('0');
    if significant.is_empty() {
        return format!("{sign}0");
    }
    match exponent.parse::<i64>() {
        Ok(exponent) if exponent.unsigned_abs() < 1 << 60 => {
            let power = exponent + zeros as i64 - fraction.len() as i64;
            format!("{sign}{significant}e{power}")
        }
        _ => text.to_owned(),
    }
}

struct Reader<'a, 'm> {
    text: &'a str,
    builder: Builder<'m>,
}

impl<'a> Reader<'a, '_> {
    fn node(&mut self, value: &Value<'_>) -> Option<Node<'a>> {
        let range = span(value.range());
        let text = &self.text[range.clone()];
        match value {
            Value::StringLit(lit) => self.builder.scalar(text, &format!("s{}", lit.value)),
            Value::NumberLit(lit) => {
                let number = canonical_number(lit.value);
                self.builder.scalar(text, &format!("n{number}"))
            }
            Value::BooleanLit(_) | Value::NullKeyword(_) => self.builder.scalar(text, text),
            Value::Object(object) => {
                let mut read = Vec::with_capacity(object.properties.len());
                for prop in &object.properties {
                    let ObjectPropName::String(name) = &prop.name else {
                        return None;
                    };
                    read.push(self.item(span(name.range), &name.value, &prop.value)?);
                }
                let container = self.container(range, read);
                self.builder.map(text, container)
            }
            Value::Array(array) => {
                let mut read = Vec::with_capacity(array.elements.len());
                for element in &array.elements {
                    let start = element.start();
                    read.push(self.item(start..start, "", element)?);
                }
                let container = self.container(range, read);
                self.builder.list(text, container)
            }
        }
    }

    fn item(&mut self, label: Range<usize>, name: &str, value: &Value<'_>) -> Option<Read<'a>> {
        Some(Read {
            label,
            name: name.into(),
            value: self.node(value)?,
            at: span(value.range()),
        })
    }

    fn container(&self, range: Range<usize>, read: Vec<Read<'a>>) -> Container<'a> {
        commas::container(self.text, Json::STYLE.comments, range, read)
    }
}

fn span(range: jsonc_parser::common::Range) -> Range<usize> {
    range.start..range.end
}
