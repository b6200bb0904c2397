//! The project that a request names.

use elevo_core::ProjectId;

/// The id or the name of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProjectRef {
    Id(ProjectId),
    Name(String),
}

impl ProjectRef {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Id(id) => id.as_str(),
            Self::Name(name) => name,
        }
    }
}

impl From<&str> for ProjectRef {
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(id) => Self::Id(id),
            Err(_) => Self::Name(text.to_owned()),
        }
    }
}

impl From<ProjectId> for ProjectRef {
    fn from(id: ProjectId) -> Self {
        Self::Id(id)
    }
}
