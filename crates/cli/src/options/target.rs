//! The argument `NAME[@REV][:PATH]`, which names files of a project.

use std::convert::Infallible;
use std::str::FromStr;

/// A file or directory of a project, in the newest or an older state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The project, by name or id.
    pub(crate) project: String,
    /// The state of the project; `None` for the newest.
    pub(crate) revision: Option<String>,
    /// The path; `None` for the root.
    pub(crate) path: Option<String>,
}

impl FromStr for Target {
    type Err = Infallible;

    /// Splits at the first colon, and at the first `@` before it. A project whose
    /// name has one of them is named by its id.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (project, path) = match text.split_once(':') {
            Some((project, path)) => (project, Some(path)),
            None => (text, None),
        };
        let (project, revision) = match project.split_once('@') {
            Some((project, revision)) => (project, Some(revision)),
            None => (project, None),
        };
        let some = |text: Option<&str>| text.filter(|it| !it.is_empty()).map(str::to_owned);
        Ok(Self {
            project: project.to_owned(),
            revision: some(revision),
            path: some(path),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_project_and_perhaps_a_revision_and_a_path() {
        for (text, project, revision, path) in [
            ("site", "site", None, None),
            ("site@3", "site", Some("3"), None),
            ("site:a/b:c", "site", None, Some("a/b:c")),
            ("site@v1~2:a@b", "site", Some("v1~2"), Some("a@b")),
            ("site@:", "site", None, None),
            ("site@@:a", "site", Some("@"), Some("a")),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.project, project);
            assert_eq!(target.revision.as_deref(), revision, "{text}");
            assert_eq!(target.path.as_deref(), path, "{text}");
        }
    }
}
