//! Compiles a policy into a form that can be queried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use elevo_core::TreePath;

use crate::error::{MAX_PROBLEMS, PolicyError, Problem};
use crate::ignores::List;
use crate::local::Local;
use crate::pattern::{MAX_PATTERN_BYTES, Pattern, Specificity};
use crate::policy::{Access, Member, Policy, Rule, Strategy};
use crate::view::{Grant, Meant, View, names_of};

/// Maximum number of rules of a policy.
pub const MAX_RULES: usize = 1000;

/// Maximum number of patterns of all rules after brace expansion.
pub const MAX_SPELLINGS: usize = 2000;

/// Maximum number of agents and roles that all rules name together.
pub const MAX_NAMED: usize = 10_000;

/// Maximum number of members of a policy.
pub const MAX_MEMBERS: usize = 10_000;

/// Maximum number of roles of a member.
pub const MAX_ROLES: usize = 100;

/// Maximum number of patterns in `local`.
pub const MAX_LOCAL_PATTERNS: usize = 1000;

/// Maximum bytes of an agent's id or name and of the name of a role.
pub const MAX_NAME_BYTES: usize = 128;

/// A valid policy that can be queried.
#[derive(Clone, Debug)]
pub struct Compiled {
    access: Vec<AccessRule>,
    /// Rules in order of precedence.
    merges: Vec<MergeRule>,
    default: Access,
    members: BTreeMap<String, Member>,
    local: Local,
    gitignore: bool,
    overrides: Vec<Strategy>,
}

#[derive(Clone, Debug)]
struct AccessRule {
    patterns: Vec<(Arc<Pattern>, Specificity)>,
    agents: BTreeSet<String>,
    roles: BTreeSet<String>,
    for_everyone: bool,
    access: Access,
    written: Arc<str>,
}

#[derive(Clone, Debug)]
struct MergeRule {
    pattern: Arc<Pattern>,
    specificity: Specificity,
    strategy: Strategy,
}

impl Policy {
    /// Compiles the policy. Returns all problems at once if it is invalid.
    pub fn compile(&self) -> Result<Compiled, PolicyError> {
        let mut problems = Problems::default();
        let patterns = check_rules(&self.rules, &mut problems);
        check_members(&self.members, &mut problems);
        let local = compile_local(&self.local, &mut problems);
        problems.finish()?;
        let rules = || self.rules.iter().zip(&patterns);
        Ok(Compiled {
            access: rules().filter_map(access_rule).collect(),
            merges: merge_rules(rules()),
            default: self.default,
            members: self.members.clone(),
            local,
            gitignore: self.gitignore,
            overrides: self.overrides.clone(),
        })
    }
}

impl Compiled {
    /// Returns the access of an agent. `None` stands for a caller without an
    /// agent, such as the owner of the project, who may do everything.
    pub fn for_agent(&self, agent: Option<&str>) -> View {
        let Some(agent) = agent else {
            return View::everything();
        };
        let grants = self.access.iter().filter_map(|rule| {
            let meant = rule.meant(agent, self.members.get(agent))?;
            Some(rule.grants(meant))
        });
        View::new(grants.flatten().collect(), self.default)
    }

    /// Returns the strategy for conflicts at a path.
    pub fn strategy(&self, path: &TreePath) -> Strategy {
        let names = names_of(path);
        let rule = self.merges.iter().find(|rule| rule.pattern.covers(&names));
        rule.map_or(Strategy::Auto, |rule| rule.strategy)
    }

    /// Returns the priority of an agent: where the strategy is
    /// [`Strategy::Priority`], the change with the higher priority wins. A
    /// caller without an agent has the highest priority.
    pub fn priority(&self, agent: Option<&str>) -> i32 {
        match agent {
            None => i32::MAX,
            Some(agent) => self.members.get(agent).map_or(0, |member| member.priority),
        }
    }

    /// Returns whether the caller of a merge may choose this strategy instead of
    /// that of the policy.
    pub fn allows_override(&self, strategy: Strategy) -> bool {
        self.overrides.contains(&strategy)
    }

    /// Returns the paths that are never merged.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Returns whether paths that `.gitignore` files ignore are not merged
    /// either.
    pub fn follows_gitignore(&self) -> bool {
        self.gitignore
    }
}

impl AccessRule {
    /// Returns how the rule addresses an agent, if it does.
    fn meant(&self, agent: &str, member: Option<&Member>) -> Option<Meant> {
        let has_role = |member: &Member| member.roles.iter().any(|role| self.roles.contains(role));
        if self.agents.contains(agent) {
            Some(Meant::ByName)
        } else if member.is_some_and(has_role) {
            Some(Meant::ByRole)
        } else {
            self.for_everyone.then_some(Meant::AsEveryone)
        }
    }

    fn grants(&self, meant: Meant) -> impl Iterator<Item = Grant> {
        self.patterns
            .iter()
            .map(move |(pattern, specificity)| Grant {
                pattern: pattern.clone(),
                specificity: *specificity,
                meant,
                access: self.access,
                written: self.written.clone(),
            })
    }
}

fn access_rule((rule, patterns): (&Rule, &Vec<Arc<Pattern>>)) -> Option<AccessRule> {
    let set = |names: &Option<Vec<String>>| names.iter().flatten().cloned().collect();
    let patterns = patterns.iter();
    Some(AccessRule {
        patterns: patterns
            .map(|pattern| (pattern.clone(), pattern.specificity()))
            .collect(),
        agents: set(&rule.agents),
        roles: set(&rule.roles),
        for_everyone: rule.is_for_everyone(),
        access: rule.access?,
        written: rule.pattern.as_str().into(),
    })
}

fn merge_rules<'a>(
    rules: impl Iterator<Item = (&'a Rule, &'a Vec<Arc<Pattern>>)>,
) -> Vec<MergeRule> {
    let of_rule = |(rule, patterns): (&'a Rule, &'a Vec<Arc<Pattern>>)| {
        let strategy = rule.merge?;
        Some(patterns.iter().map(move |pattern| MergeRule {
            pattern: pattern.clone(),
            specificity: pattern.specificity(),
            strategy,
        }))
    };
    let mut merges: Vec<_> = rules.filter_map(of_rule).flatten().collect();
    merges.sort_by(|one, other| {
        let better_first = other.specificity.cmp(&one.specificity);
        better_first.then(
            one.strategy
                .carelessness()
                .cmp(&other.strategy.carelessness()),
        )
    });
    merges
}

/// The problems found so far.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, at: impl Into<String>, message: impl ToString) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(Problem {
                at: at.into(),
                message: message.to_string(),
            });
        }
    }

    fn finish(self) -> Result<(), PolicyError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(PolicyError { problems: self.0 })
        }
    }
}

/// Checks the rules; returns the patterns of each rule.
fn check_rules(rules: &[Rule], problems: &mut Problems) -> Vec<Vec<Arc<Pattern>>> {
    if rules.len() > MAX_RULES {
        problems.add(
            "rules",
            format!("there are more than {MAX_RULES} rules; use broader patterns"),
        );
        return Vec::new();
    }
    let named = |names: &Option<Vec<String>>| names.as_ref().map_or(0, Vec::len);
    let named = rules
        .iter()
        .map(|rule| named(&rule.agents) + named(&rule.roles));
    if named.sum::<usize>() > MAX_NAMED {
        let message = format!(
            "the rules name more than {MAX_NAMED} agents and roles; give agents a common role"
        );
        problems.add("rules", message);
        return Vec::new();
    }
    let mut left = MAX_SPELLINGS;
    let patterns = rules.iter().enumerate().map(|(index, rule)| {
        check_rule(index, rule, problems);
        let patterns = rule_patterns(index, rule, left, problems);
        left -= patterns.len();
        patterns
    });
    patterns.collect()
}

fn rule_patterns(
    index: usize,
    rule: &Rule,
    left: usize,
    problems: &mut Problems,
) -> Vec<Arc<Pattern>> {
    let at = format!("rules[{index}].pattern");
    match Pattern::parse_all(&rule.pattern) {
        Err(invalid) => problems.add(at, invalid),
        Ok(patterns) if patterns.len() > left => {
            let message = format!(
                "with its braces written out, the rules have more than {MAX_SPELLINGS} patterns; \
                 use broader ones"
            );
            problems.add(at, message);
        }
        Ok(patterns) => return patterns.into_iter().map(Arc::new).collect(),
    }
    Vec::new()
}

fn check_rule(index: usize, rule: &Rule, problems: &mut Problems) {
    if rule.access.is_none() && rule.merge.is_none() {
        problems.add(
            format!("rules[{index}]"),
            "it has neither `access` nor `merge`; give one, or remove the rule",
        );
    }
    if rule.merge.is_some() && !rule.is_for_everyone() {
        problems.add(
            format!("rules[{index}].merge"),
            "conflicts are settled in the same way for everyone; move `merge` to a rule without \
             `agents` and `roles`",
        );
    }
    for (field, names) in [("agents", &rule.agents), ("roles", &rule.roles)] {
        let Some(names) = names else { continue };
        let at = format!("rules[{index}].{field}");
        if names.is_empty() {
            let message = "the list is empty, so the rule is for no agent; leave the field out to \
                           mean everyone, or remove the rule";
            problems.add(at, message);
        } else {
            names
                .iter()
                .for_each(|name| check_name(&at, name, problems));
        }
    }
}

fn check_name(at: &str, name: &str, problems: &mut Problems) {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let message = format!(
            "a name must have 1 to {MAX_NAME_BYTES} bytes; this one has {}",
            name.len()
        );
        problems.add(at, message);
    }
}

fn check_members(members: &BTreeMap<String, Member>, problems: &mut Problems) {
    if members.len() > MAX_MEMBERS {
        problems.add(
            "members",
            format!("there are more than {MAX_MEMBERS} members; remove some"),
        );
        return;
    }
    for (agent, member) in members {
        check_name("members", agent, problems);
        let shown: String = agent.chars().take(MAX_NAME_BYTES).collect();
        let at = format!("members[{shown:?}].roles");
        if member.roles.len() > MAX_ROLES {
            problems.add(
                &at,
                format!("there are more than {MAX_ROLES} roles; remove some"),
            );
        } else {
            let roles = member.roles.iter();
            roles.for_each(|role| check_name(&at, role, problems));
        }
    }
}

fn compile_local(patterns: &[String], problems: &mut Problems) -> Local {
    let mut list = List::default();
    if patterns.len() > MAX_LOCAL_PATTERNS {
        let message = format!("there are more than {MAX_LOCAL_PATTERNS} patterns; remove some");
        problems.add("local", message);
        return Local::default();
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let at = format!("local[{index}]");
        if pattern.len() > MAX_PATTERN_BYTES {
            problems.add(
                at,
                format!("it is longer than {MAX_PATTERN_BYTES} bytes; shorten it"),
            );
        } else if pattern.contains(['\n', '\0']) || !list.add(pattern.as_bytes()) {
            let message = "it is not a valid pattern of a `.gitignore`; correct or \
                           remove it";
            problems.add(at, message);
        }
    }
    Local::new(list)
}
