//! Conflict markers, as git writes them:
//!
//! ```text
//! <<<<<<< ours
//! the lines in ours
//! ||||||| base
//! the lines in the base
//! =======
//! the lines in theirs
//! >>>>>>> theirs
//! ```

use super::combine::{Outcome, Region};
use super::endings::UniformEndings;
use super::lines::{Line, Texts};
use super::{is_binary, regions};
use crate::driver::Versions;

/// Length of a marker.
const MARKER: usize = 7;

/// The labels after the markers; an empty label is omitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels<'a> {
    /// The label after `<<<<<<<`.
    pub ours: &'a str,
    /// The label after `|||||||`.
    pub base: &'a str,
    /// The label after `>>>>>>>`.
    pub theirs: &'a str,
}

/// The extent of the lines between the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerStyle {
    /// The whole changed region: git's `diff3`.
    Diff3,
    /// Lines at the start and end that both sides share are outside the
    /// markers: git's `zdiff3`.
    Zdiff3,
}

/// Returns the merged file with its conflicts between markers; `None` if a
/// version is binary. A file without conflicts has no markers.
pub fn marked(versions: &Versions<'_>, labels: &Labels<'_>, style: MarkerStyle) -> Option<Vec<u8>> {
    let base = versions.base.unwrap_or_default();
    if [base, versions.ours, versions.theirs]
        .into_iter()
        .any(is_binary)
    {
        return None;
    }
    let alike = UniformEndings::new(base, versions.ours, versions.theirs);
    let texts = Texts::new(&alike.base, &alike.ours, &alike.theirs);
    let mut out = Vec::new();
    let mut done = 0;
    for region in regions(&texts) {
        texts.put(&mut out, &texts.base[done..region.base.start]);
        match region.outcome {
            Outcome::Ours => texts.put(&mut out, &texts.ours[region.ours.clone()]),
            Outcome::Theirs => texts.put(&mut out, &texts.theirs[region.theirs.clone()]),
            Outcome::Conflict => put_conflict(&texts, &region, labels, style, &mut out),
        }
        done = region.base.end;
    }
    texts.put(&mut out, &texts.base[done..]);
    Some(out)
}

/// Whether a text has a line that [`marked`] writes with these labels, which
/// must not be empty. The line between the sides does not count: it has no
/// label, and many texts contain it.
pub fn has_markers(text: &[u8], labels: &Labels<'_>) -> bool {
    let markers = [
        marker(b'<', labels.ours),
        marker(b'|', labels.base),
        marker(b'>', labels.theirs),
    ];
    text.split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        markers.iter().any(|marker| marker == line)
    })
}

/// A marker without its newline.
fn marker(byte: u8, label: &str) -> Vec<u8> {
    let mut line = vec![byte; MARKER];
    if !label.is_empty() {
        line.push(b' ');
        line.extend_from_slice(label.as_bytes());
    }
    line
}

fn put_conflict(
    texts: &Texts<'_>,
    region: &Region,
    labels: &Labels<'_>,
    style: MarkerStyle,
    out: &mut Vec<u8>,
) {
    let shown = match style {
        MarkerStyle::Diff3 => region.clone(),
        MarkerStyle::Zdiff3 => region.narrowed(texts),
    };
    texts.put(out, &texts.ours[region.ours.start..shown.ours.start]);
    let newline = newline(texts, &shown);
    let put_marker = |out: &mut Vec<u8>, byte, label: &str| {
        out.extend(marker(byte, label));
        out.extend_from_slice(newline);
    };
    put_marker(out, b'<', labels.ours);
    put_whole(texts, &texts.ours[shown.ours.clone()], newline, out);
    put_marker(out, b'|', labels.base);
    put_whole(texts, &texts.base[shown.base.clone()], newline, out);
    put_marker(out, b'=', "");
    put_whole(texts, &texts.theirs[shown.theirs.clone()], newline, out);
    put_marker(out, b'>', labels.theirs);
    texts.put(out, &texts.ours[shown.ours.end..region.ours.end]);
}

/// Appends lines, with a final newline so that a marker can follow.
fn put_whole(texts: &Texts<'_>, lines: &[Line], newline: &[u8], out: &mut Vec<u8>) {
    texts.put(out, lines);
    if lines
        .last()
        .is_some_and(|&last| !texts.line(last).ends_with(b"\n"))
    {
        out.extend_from_slice(newline);
    }
}

/// Returns the line ending of the markers of a region: CRLF if the first line
/// of the base ends in CRLF, and the line before the region ends in LF alone on
/// neither side.
fn newline(texts: &Texts<'_>, region: &Region) -> &'static [u8] {
    let ours = ends_in_crlf(texts, &texts.ours, region.ours.start.saturating_sub(1));
    let theirs = ends_in_crlf(texts, &texts.theirs, region.theirs.start.saturating_sub(1));
    let base = ends_in_crlf(texts, &texts.base, 0);
    if base == Some(true) && ours != Some(false) && theirs != Some(false) {
        b"\r\n"
    } else {
        b"\n"
    }
}

/// Whether a line ends in CRLF; for a last line without an ending, the line
/// before it counts.
fn ends_in_crlf(texts: &Texts<'_>, lines: &[Line], at: usize) -> Option<bool> {
    let line = texts.line(*lines.get(at)?);
    if line.ends_with(b"\n") {
        return Some(line.ends_with(b"\r\n"));
    }
    let before = texts.line(lines[at.checked_sub(1)?]);
    Some(before.ends_with(b"\r\n"))
}
