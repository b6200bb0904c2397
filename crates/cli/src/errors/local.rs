use super::described::Described;
use super::directory::DirectoryProblem;
use super::file::FileProblem;
use super::protected::Protected;
use super::store::StoreProblem;

/// An error of finding a store or a directory on this machine. Each variant
/// wraps the errors of one area.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalProblem {
    /// Boxed, because it is much larger than the other variants.
    #[error(transparent)]
    Directory(Box<DirectoryProblem>),
    #[error(transparent)]
    File(#[from] FileProblem),
    #[error(transparent)]
    Protected(#[from] Protected),
    #[error(transparent)]
    Store(#[from] StoreProblem),
}

impl From<DirectoryProblem> for LocalProblem {
    fn from(problem: DirectoryProblem) -> Self {
        Self::Directory(Box::new(problem))
    }
}

impl LocalProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::Directory(problem) => problem.describe(),
            Self::File(problem) => problem.describe(),
            Self::Protected(problem) => problem.describe(),
            Self::Store(problem) => problem.describe(),
        }
    }
}
