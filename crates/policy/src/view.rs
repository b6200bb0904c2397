//! The access of one agent.

use std::fmt;
use std::sync::Arc;

use elevo_core::TreePath;

use crate::pattern::{Below, Pattern, Specificity};
use crate::policy::Access;

/// Maximum number of comparisons in the search for rules that can never apply.
/// If such a rule is not found, results are less exact, but never wrong.
const MAX_COMPARISONS: usize = 20_000;

/// The access of one agent to the paths of a project.
#[derive(Clone, Debug)]
pub struct View {
    /// Rules in order of precedence, without those that can never apply.
    grants: Vec<Grant>,
    default: Access,
    hides_anything: bool,
    is_read_only: bool,
}

/// A rule that applies to the agent.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) pattern: Arc<Pattern>,
    pub(crate) specificity: Specificity,
    pub(crate) meant: Meant,
    pub(crate) access: Access,
    /// The pattern of the rule as it was written.
    pub(crate) written: Arc<str>,
}

/// How directly a rule addresses an agent. The greater takes precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meant {
    AsEveryone,
    ByRole,
    ByName,
}

/// An action on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Create a path that does not exist.
    Create,
    /// Change the content, mode or kind of an existing path.
    Change,
    /// Remove an existing path.
    Remove,
}

impl Doing {
    /// Returns the least access that allows the action.
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
    /// Returns a view that allows everything.
    pub fn everything() -> Self {
        Self::new(Vec::new(), Access::Full)
    }

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

    /// Returns the access to a path.
    pub fn access(&self, path: &TreePath) -> Access {
        self.grant(path).map_or(self.default, |grant| grant.access)
    }

    /// Returns whether some path may be hidden. If not, a tree can be shown as it
    /// is.
    pub fn hides_anything(&self) -> bool {
        self.hides_anything
    }

    /// Returns whether no path can be written.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the access to everything below a directory, if it is the same
    /// everywhere. The directory itself can have another access.
    pub fn uniform(&self, directory: &TreePath) -> Option<Access> {
        let possible = self.possible_below(&names_of(directory));
        let (first, rest) = possible.split_first()?;
        rest.iter().all(|other| other == first).then_some(*first)
    }

    /// Returns whether some path below a directory may be hidden.
    pub fn hides_below(&self, directory: &TreePath) -> bool {
        let possible = self.possible_below(&names_of(directory));
        possible.contains(&Access::None)
    }

    /// Checks whether an action on a path is allowed.
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

    /// Returns the rule that applies to a path.
    fn grant(&self, path: &TreePath) -> Option<&Grant> {
        let names = names_of(path);
        self.grants
            .iter()
            .find(|grant| grant.pattern.covers(&names))
    }

    /// Returns every access that some path below a directory may have; at least
    /// one.
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

/// A denied action.
///
/// For a hidden path it names neither the action nor the rule: either would
/// reveal whether the path exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The path of the action.
    pub path: TreePath,
    /// The access that the agent has.
    pub access: Access,
    /// The action; `None` for a hidden path.
    pub doing: Option<Doing>,
    /// The pattern of the rule that applies; `None` if the policy's default
    /// applies or the path is hidden.
    pub pattern: Option<String>,
}

impl Refusal {
    /// Returns advice for the user.
    pub fn remedy(&self) -> String {
        match self.doing {
            None => "Work on other paths, or ask the project's owner for access.".to_owned(),
            Some(doing) => format!(
                "Leave the path unchanged, or ask the project's owner for the access `{}` to it.",
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
