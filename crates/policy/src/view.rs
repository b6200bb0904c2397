//! What one agent may do.

use std::fmt;
use std::sync::Arc;

use elevo_core::TreePath;

use crate::pattern::{Below, Pattern, Specificity};
use crate::policy::Access;

/// How often rules are compared to find those that cannot hold anywhere. What
/// is not found costs an answer that is less exact, never a wrong one.
const MAX_COMPARISONS: usize = 20_000;

/// What one agent may do with the paths of a project.
#[derive(Clone, Debug)]
pub struct View {
    /// What holds first comes first; none that cannot hold anywhere.
    grants: Vec<Grant>,
    default: Access,
    hides_anything: bool,
    is_read_only: bool,
}

/// A rule that is for the agent.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) pattern: Arc<Pattern>,
    pub(crate) specificity: Specificity,
    pub(crate) meant: Meant,
    pub(crate) access: Access,
    /// The rule's pattern as it was written.
    pub(crate) written: Arc<str>,
}

/// How directly a rule means an agent. The greater holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meant {
    AsEveryone,
    ByRole,
    ByName,
}

/// What somebody wants to do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Make what is not there.
    Create,
    /// Give what is there another content, mode or kind.
    Change,
    /// Remove what is there.
    Remove,
}

impl Doing {
    /// The least access that allows it.
    pub const fn needs(self) -> Access {
        match self {
            Self::Create => Access::Append,
            Self::Change => Access::Write,
            Self::Remove => Access::Full,
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Change => "changed",
            Self::Remove => "removed",
        }
    }
}

impl View {
    pub(crate) fn new(mut grants: Vec<Grant>, default: Access) -> Self {
        grants.sort_by(|one, other| {
            let rank = |grant: &Grant| (grant.specificity, grant.meant);
            let better_first = rank(other).cmp(&rank(one));
            better_first
                .then(one.access.cmp(&other.access))
                .then_with(|| one.written.cmp(&other.written))
        });
        let mut view = Self {
            grants: Vec::with_capacity(grants.len()),
            default,
            hides_anything: false,
            is_read_only: false,
        };
        let mut comparisons = MAX_COMPARISONS;
        for grant in grants {
            let includes = |better: &Grant| better.pattern.includes(&grant.pattern);
            let compared = view.grants.len().min(comparisons);
            comparisons -= compared;
            if !view.grants[..compared].iter().any(includes) {
                view.grants.push(grant);
            }
        }
        let possible = view.possible_below(&[]);
        view.hides_anything = possible.contains(&Access::None);
        view.is_read_only = possible.iter().all(|access| *access <= Access::Read);
        view
    }

    /// What may be done with a path.
    pub fn access(&self, path: &TreePath) -> Access {
        self.grant(path).map_or(self.default, |grant| grant.access)
    }

    /// Whether some path may be hidden. If not, a tree can be shown as it is.
    pub fn hides_anything(&self) -> bool {
        self.hides_anything
    }

    /// Whether nothing can be written anywhere.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The access of everything below a directory, if it is the same everywhere
    /// there. The directory itself can have another.
    pub fn uniform(&self, directory: &TreePath) -> Option<Access> {
        let possible = self.possible_below(&names_of(directory));
        let (first, rest) = possible.split_first()?;
        rest.iter().all(|other| other == first).then_some(*first)
    }

    /// Whether some path below a directory may be hidden.
    pub fn hides_below(&self, directory: &TreePath) -> bool {
        let possible = self.possible_below(&names_of(directory));
        possible.contains(&Access::None)
    }

    /// Whether that may be done with the path.
    pub fn check(&self, path: &TreePath, doing: Doing) -> Result<(), Refusal> {
        let grant = self.grant(path);
        let access = grant.map_or(self.default, |grant| grant.access);
        if access >= doing.needs() {
            return Ok(());
        }
        let shown = access != Access::None;
        Err(Refusal {
            path: path.clone(),
            access,
            doing: shown.then_some(doing),
            pattern: grant
                .filter(|_| shown)
                .map(|grant| grant.written.to_string()),
        })
    }

    /// The rule that holds for a path.
    fn grant(&self, path: &TreePath) -> Option<&Grant> {
        let names = names_of(path);
        self.grants
            .iter()
            .find(|grant| grant.pattern.covers(&names))
    }

    /// Every access that some path below a directory may have; at least one.
    fn possible_below(&self, directory: &[&[u8]]) -> Vec<Access> {
        let mut possible = Vec::new();
        for grant in &self.grants {
            match grant.pattern.below(directory) {
                Below::Nothing => {}
                Below::Something => possible.push(grant.access),
                Below::Everything => {
                    possible.push(grant.access);
                    return possible;
                }
            }
        }
        possible.push(self.default);
        possible
    }
}

pub(crate) fn names_of(path: &TreePath) -> Vec<&[u8]> {
    match path.as_bytes() {
        [] => Vec::new(),
        bytes => bytes.split(|byte| *byte == b'/').collect(),
    }
}

/// Why something may not be done.
///
/// Where there is no access at all, it says neither what was tried nor which
/// rule forbids it: either would tell whether the path is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// With what.
    pub path: TreePath,
    /// The access there is.
    pub access: Access,
    /// What was tried.
    pub doing: Option<Doing>,
    /// The pattern of the rule that holds; none if it is the policy's default.
    pub pattern: Option<String>,
}

impl Refusal {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self.doing {
            None => "Work on other paths, or ask the project's owner for access.".to_owned(),
            Some(doing) => format!(
                "Leave it as it is in the project, or ask the project's owner for `{}` there.",
                doing.needs()
            ),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        let Some(doing) = self.doing else {
            return write!(f, "this agent has no access to `{path}`");
        };
        let (done, needs, access) = (doing.done(), doing.needs(), self.access);
        write!(f, "`{path}` cannot be {done}: that needs `{needs}`, and ")?;
        match &self.pattern {
            Some(pattern) => write!(f, "the rule `{pattern}` gives `{access}`"),
            None => write!(f, "the policy's default is `{access}`"),
        }
    }
}
