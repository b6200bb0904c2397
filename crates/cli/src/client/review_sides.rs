//! The three versions of a file under review.

use bytes::Bytes;
use elevo_api as api;
use elevo_merge::{Labels, MarkerStyle, Versions, marked};
use reqwest::Method;

use crate::client::error::Result;
use crate::client::http::Client;
use crate::client::paths::review_path;

/// Content of each version; `None` if it does not exist or is a directory.
pub(crate) struct Sides {
    pub(crate) base: Option<Bytes>,
    pub(crate) ours: Option<Bytes>,
    pub(crate) theirs: Option<Bytes>,
}

impl Sides {
    /// Downloads all three versions.
    pub(crate) async fn of(client: &Client, review: &api::Review) -> Result<Self> {
        let conflict = &review.conflict;
        let side = async |name: &str, version: &Option<api::Version>| {
            let has_content = |version: &api::Version| version.kind != "directory";
            match version.as_ref().is_some_and(has_content) {
                true => content(client, &review.id, name).await.map(Some),
                false => Ok(None),
            }
        };
        Ok(Self {
            base: side("base", &conflict.base_version).await?,
            ours: side("project", &conflict.project_version).await?,
            theirs: side("workspace", &conflict.workspace_version).await?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Bytes> {
        let all = [&self.base, &self.ours, &self.theirs];
        all.into_iter().filter_map(Option::as_ref)
    }

    /// The versions to merge, if both sides have the file.
    pub(crate) fn versions(&self) -> Option<Versions<'_>> {
        Some(Versions {
            base: self.base.as_deref(),
            ours: self.ours.as_deref()?,
            theirs: self.theirs.as_deref()?,
        })
    }

    /// The file to edit, with both sides between markers where they conflict. If
    /// one side removed the file, the other's version. `None` if it is not text.
    pub(crate) fn to_edit(&self) -> Option<Vec<u8>> {
        let labels = Labels {
            ours: "the project",
            base: "base",
            theirs: "the workspace",
        };
        match self.versions() {
            Some(versions) => marked(&versions, &labels, MarkerStyle::Zdiff3),
            None => {
                let left = self.ours.as_ref().or(self.theirs.as_ref())?;
                (!left.contains(&0)).then(|| left.to_vec())
            }
        }
    }

    /// Whether the edited file has markers that no version has.
    pub(crate) fn leaves_markers(&self, edited: &[u8]) -> bool {
        let is_known = |line: &[u8]| {
            self.all()
                .any(|version| lines(version).any(|it| it == line))
        };
        lines(edited).any(|line| is_marker(line) && !is_known(line))
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Whether a line is a conflict marker. A row of equals signs does not count: it
/// may be a heading, and as a marker it occurs only with the others.
fn is_marker(line: &[u8]) -> bool {
    ["<<<<<<<", "|||||||", ">>>>>>>"].iter().any(|marker| {
        let rest = line.strip_prefix(marker.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b" "))
    })
}

async fn content(client: &Client, id: &str, side: &str) -> Result<Bytes> {
    let request = client.request(Method::GET, &review_path(id, &["content"]));
    let answer = client.send(request.query(&[("side", side)])).await?;
    client.body(answer).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(base: &str, ours: &str, theirs: &str) -> Sides {
        let side = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
        Sides {
            base: side(base),
            ours: side(ours),
            theirs: side(theirs),
        }
    }

    #[test]
    fn markers_are_put_in_and_noticed() {
        let sides = sides("a\nb\n", "a\nB\n", "a\nbb\n");
        let text = sides.to_edit().unwrap();
        assert!(text.starts_with(b"a\n<<<<<<< the project\nB\n"));
        assert!(sides.leaves_markers(&text));
        assert!(sides.leaves_markers(b"a\n>>>>>>> theirs\r\n"));
        assert!(!sides.leaves_markers(b"a\nB\nHeading\n=======\n<<<<<<<< eight\n"));
    }

    #[test]
    fn markers_that_were_there_may_stay() {
        let sides = sides("<<<<<<< x\n", "<<<<<<< x\n1\n", "<<<<<<< x\n2\n");
        assert!(!sides.leaves_markers(b"<<<<<<< x\n1\n2\n"));
        assert!(sides.leaves_markers(b"<<<<<<< y\n1\n2\n"));
    }

    #[test]
    fn bytes_are_not_edited() {
        assert!(sides("a", "\0b", "c").to_edit().is_none());
    }
}
