//! Patterns of policies and of `.gitignore` files, written by owners and agents.

use elevo_core::TreePath;
use elevo_policy::{Access, Compiled, Doing, Ignores, Member, Policy, Rule, Strategy};

const ACCESSES: [Access; 5] = [
    Access::None,
    Access::Read,
    Access::Append,
    Access::Write,
    Access::Full,
];
const AGENT: &str = "ada";
const ROLE: &str = "dev";
const DEFAULT: Access = Access::Append;
const MOST_RULES: usize = 6;

/// Evaluates a policy for the path in the last line. Each line before it is a rule: a byte for the
/// access and the agents, and a pattern.
///
/// The result must be that of one of the rules that cover the path, in any order of the rules, and
/// an access that is uniform for a directory must hold for everything in it.
pub fn rules(data: &[u8]) {
    let mut lines: Vec<_> = data.split(|byte| *byte == b'\n').collect();
    let path = lines.pop().map(TreePath::new);
    let Some(Ok(path)) = path else {
        return;
    };
    let rules = lines.iter().take(MOST_RULES).filter_map(|line| rule(line));
    let rules: Vec<_> = rules.collect();
    let Some(compiled) = compiled(rules.clone()) else {
        return;
    };
    let view = compiled.for_agent(Some(AGENT));
    let access = view.access(&path);
    let answers = (access, compiled.strategy(&path));
    let backwards = compiled_of(rules.iter().rev().cloned().collect());
    let again = backwards.for_agent(Some(AGENT)).access(&path);
    assert_eq!((again, backwards.strategy(&path)), answers, "in any order");
    let covering: Vec<_> = rules.iter().filter(|rule| covers(rule, &path)).collect();
    if covering.is_empty() {
        assert_eq!(access, DEFAULT);
    } else {
        assert!(covering.iter().any(|rule| rule.access == Some(access)));
    }
    let is_held = covering.iter().any(|rule| rule.merge.is_some());
    assert_eq!(answers.1 == Strategy::Review, is_held);
    for doing in [Doing::Create, Doing::Change, Doing::Remove] {
        let allowed = view.check(&path, doing).is_ok();
        assert_eq!(allowed, access >= doing.needs());
    }
    let mut below = path.clone();
    while let Some((directory, _)) = below.split_last() {
        if let Some(everywhere) = view.uniform(&directory) {
            assert_eq!(everywhere, access, "below {directory:?}");
        }
        below = directory;
    }
    if !path.is_root() {
        assert!(view.hides_anything() || access != Access::None);
        assert!(!view.is_read_only() || access <= Access::Read);
    }
}

fn rule(line: &[u8]) -> Option<Rule> {
    let (meant, pattern) = line.split_first()?;
    let meant = usize::from(*meant);
    let names = |name: &str| Some(vec![name.to_owned()]);
    let (agents, roles) = match meant / ACCESSES.len() % 3 {
        0 => (None, None),
        1 => (names(AGENT), None),
        _ => (None, names(ROLE)),
    };
    let is_for_everyone = agents.is_none() && roles.is_none();
    Some(Rule {
        pattern: str::from_utf8(pattern).ok()?.to_owned(),
        agents,
        roles,
        access: Some(ACCESSES[meant % ACCESSES.len()]),
        merge: is_for_everyone.then_some(Strategy::Review),
    })
}

fn compiled(rules: Vec<Rule>) -> Option<Compiled> {
    let member = Member {
        roles: vec![ROLE.to_owned()],
        priority: 0,
    };
    let policy = Policy {
        rules,
        default: DEFAULT,
        members: [(AGENT.to_owned(), member)].into(),
        ..Policy::default()
    };
    policy.compile().ok()
}

fn compiled_of(rules: Vec<Rule>) -> Compiled {
    compiled(rules).expect("parts of a valid policy are valid")
}

/// Whether a rule, without any other, covers the path.
fn covers(rule: &Rule, path: &TreePath) -> bool {
    let alone = Rule {
        pattern: rule.pattern.clone(),
        merge: Some(Strategy::Review),
        ..Rule::default()
    };
    compiled_of(vec![alone]).strategy(path) == Strategy::Review
}

/// Evaluates a `.gitignore` for a path, separated by a byte that is never in UTF-8. Everything in
/// an ignored directory is ignored, and a policy with the same patterns gives the same result.
pub fn ignores(data: &[u8]) {
    let mut parts = data.rsplitn(2, |byte| *byte == 0xff);
    let path = TreePath::new(parts.next().unwrap_or_default());
    let (Ok(path), Some(content)) = (path, parts.next()) else {
        return;
    };
    let mut ignores = Ignores::new();
    if ignores.add(&TreePath::root(), content).is_err() {
        return;
    }
    let [file, directory] = [false, true].map(|is_directory| ignores.ignores(&path, is_directory));
    if let Some((parent, _)) = path.split_last()
        && ignores.ignores(&parent, true)
    {
        assert!(file && directory, "its directory is ignored");
    }
    assert!(ignores.add(&TreePath::root(), content).is_ok());
    assert_eq!(ignores.ignores(&path, false), file, "in place of itself");
    if let Some(local) = local(content)
        && !path.names().any(|name| &name[..] == b".git")
    {
        assert_eq!(local.local().always(&path, false), file);
        assert_eq!(local.local().always(&path, true), directory);
    }
}

/// The policy whose own patterns are the lines of a `.gitignore`, if they are valid there.
fn local(content: &[u8]) -> Option<Compiled> {
    let content = str::from_utf8(content).ok()?;
    if content.contains(['\r', '\u{feff}']) {
        return None;
    }
    let lines = content.split('\n').filter(|line| !line.is_empty());
    let policy = Policy {
        local: lines.map(str::to_owned).collect(),
        ..Policy::default()
    };
    policy.compile().ok()
}
