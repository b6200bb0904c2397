//! Compares the dependencies of the crates with `docs/architecture.md`.
//!
//! The page has two fenced blocks. `arrows` lists, for each crate of the workspace, the crates of
//! the workspace that it may depend on; `forbidden` lists the outside crates that it must not
//! reach. The check works both ways, so that the page stays true: a dependency without an arrow
//! fails, and so does an arrow without a dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// The only crate that all other crates may use in their tests.
const TESTKIT: &str = "elevo-testkit";

/// The rules of the page.
#[derive(Debug, Default, PartialEq)]
struct Rules {
    arrows: BTreeMap<String, BTreeMap<String, Need>>,
    forbidden: BTreeMap<String, BTreeSet<String>>,
}

/// Whether the dependency of an arrow must exist (`Used`), or may exist
/// (`Optional`).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Need {
    Used,
    Optional,
}

/// The dependencies in the workspace.
#[derive(Debug, Clone, Default)]
struct Workspace {
    crates: BTreeMap<String, Dependencies>,
}

#[derive(Debug, Clone, Default)]
struct Dependencies {
    /// Workspace crates that the crate is built with.
    normal: BTreeSet<String>,
    /// Workspace crates that the tests of the crate are built with.
    dev: BTreeSet<String>,
    /// All outside crates that are linked into the crate, directly or
    /// indirectly.
    reached: BTreeSet<String>,
}

impl Rules {
    fn parse(page: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        for (from, targets) in lines_of(page, "arrows")? {
            let arrows = targets
                .iter()
                .map(|target| match target.strip_suffix('?') {
                    Some(name) => (name.to_owned(), Need::Optional),
                    None => (target.clone(), Need::Used),
                })
                .collect();
            if rules.arrows.insert(from.clone(), arrows).is_some() {
                return Err(format!("`{from}` is listed twice"));
            }
        }
        for (from, targets) in lines_of(page, "forbidden")? {
            rules.forbidden.entry(from).or_default().extend(targets);
        }
        Ok(rules)
    }

    /// Returns one sentence for each difference between the workspace and the page.
    fn violations(&self, workspace: &Workspace) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.arrows.keys().chain(self.forbidden.keys()) {
            if !workspace.crates.contains_key(name) {
                found.push(format!(
                    "`{name}` is listed but is not a crate of the workspace"
                ));
            }
        }
        for name in self.forbidden.values().flatten() {
            if workspace.crates.contains_key(name) {
                found.push(format!(
                    "`{name}` is forbidden but comes from the workspace: leave out its arrow"
                ));
            }
        }
        for (name, dependencies) in &workspace.crates {
            match self.arrows.get(name) {
                Some(arrows) => check_arrows(name, arrows, dependencies, &mut found),
                None => found.push(format!("`{name}` is not listed")),
            }
            if let Some(forbidden) = self.forbidden.get(name) {
                for outside in forbidden.intersection(&dependencies.reached) {
                    found.push(format!("`{name}` reaches `{outside}`, which is forbidden"));
                }
            }
        }
        found
    }
}

fn check_arrows(
    name: &str,
    arrows: &BTreeMap<String, Need>,
    dependencies: &Dependencies,
    found: &mut Vec<String>,
) {
    for target in &dependencies.normal {
        if !arrows.contains_key(target) {
            found.push(format!("`{name}` depends on `{target}` without an arrow"));
        }
    }
    for target in &dependencies.dev {
        if target != TESTKIT && target != name && !arrows.contains_key(target) {
            found.push(format!(
                "tests of `{name}` depend on `{target}` without an arrow"
            ));
        }
    }
    for (target, need) in arrows {
        if *need == Need::Used && !dependencies.normal.contains(target) {
            found.push(format!("the arrow from `{name}` to `{target}` is not used"));
        }
    }
}

/// Returns the lines `from -> to to ...` of the fenced block with this tag.
fn lines_of(page: &str, tag: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let (_, rest) = page
        .split_once(&format!("\n```{tag}\n"))
        .ok_or_else(|| format!("no block `{tag}`"))?;
    let (block, _) = rest
        .split_once("\n```")
        .ok_or_else(|| format!("block `{tag}` has no end"))?;
    block
        .lines()
        .map(|line| {
            let (from, to) = line
                .split_once("->")
                .ok_or_else(|| format!("no arrow in `{line}`"))?;
            let targets = to.split_whitespace().map(str::to_owned).collect();
            Ok((from.trim().to_owned(), targets))
        })
        .collect()
}

impl Workspace {
    fn read(manifest: &Path) -> Self {
        let metadata = MetadataCommand::new()
            .manifest_path(manifest)
            // The filter leaves out dependencies of other platforms, which may
            // not be downloaded.
            .other_options(["--locked", "--filter-platform", "host-tuple"].map(str::to_owned))
            .exec()
            .expect("cargo metadata");
        let crates = metadata
            .workspace_packages()
            .iter()
            .map(|package| {
                (
                    package.name.to_string(),
                    dependencies(&metadata, &package.id),
                )
            })
            .collect();
        Self { crates }
    }
}

fn dependencies(metadata: &Metadata, id: &PackageId) -> Dependencies {
    let own: BTreeSet<_> = metadata
        .workspace_packages()
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    let mut result = Dependencies {
        reached: reached(metadata, id).difference(&own).cloned().collect(),
        ..Dependencies::default()
    };
    // The declared dependencies are read, not the resolved ones: an optional
    // dependency counts even if its feature is off.
    for dependency in &metadata[id].dependencies {
        if !own.contains(&dependency.name) {
            continue;
        }
        match dependency.kind {
            DependencyKind::Development => result.dev.insert(dependency.name.clone()),
            _ => result.normal.insert(dependency.name.clone()),
        };
    }
    result
}

/// Returns the names of all packages that are linked into this package.
fn reached(metadata: &Metadata, id: &PackageId) -> BTreeSet<String> {
    let resolve = metadata.resolve.as_ref().expect("metadata is resolved");
    let mut seen = BTreeSet::new();
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        let linked = resolve[id].deps.iter().filter(|dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            kinds.any(|kind| kind.kind == DependencyKind::Normal)
        });
        for dependency in linked {
            if seen.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    seen.into_iter()
        .map(|id| metadata[id].name.to_string())
        .collect()
}

#[test]
fn the_workspace_follows_the_arrows_in_the_architecture_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let workspace = Workspace::read(&root.join("Cargo.toml"));

    let violations = Rules::parse(&page).unwrap().violations(&workspace);

    assert!(
        violations.is_empty(),
        "docs/architecture.md and the workspace differ:\n{}",
        violations.join("\n")
    );
}

#[test]
fn indirect_dependencies_are_reached() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = Workspace::read(&root.join("Cargo.toml"));

    // If this fails, the check for forbidden crates checks nothing.
    let objects = &workspace.crates["elevo-objects"].reached;
    assert!(objects.contains("blake3"), "direct: {objects:?}");
    assert!(
        objects.contains("constant_time_eq"),
        "through blake3: {objects:?}"
    );
    assert!(!objects.contains("proptest"), "only in tests: {objects:?}");
}

const PAGE: &str = "
```arrows
low ->
high -> low
elevo-testkit -> low?
```

```forbidden
low -> tokio
```
";

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The violations of a workspace that follows `PAGE`, after `change`.
fn violations_after(change: impl FnOnce(&mut BTreeMap<String, Dependencies>)) -> Vec<String> {
    let with = |normal: &[&str]| Dependencies {
        normal: set(normal),
        ..Dependencies::default()
    };
    let mut crates = BTreeMap::from([
        ("low".to_owned(), with(&[])),
        ("high".to_owned(), with(&["low"])),
        (TESTKIT.to_owned(), with(&["low"])),
    ]);
    change(&mut crates);
    let rules = Rules::parse(PAGE).expect("the page parses");
    rules.violations(&Workspace { crates })
}

#[test]
fn a_workspace_that_follows_the_arrows_has_no_violation() {
    assert_eq!(violations_after(|_| ()), Vec::<String>::new());
}

#[test]
fn an_optional_arrow_may_be_unused() {
    let found = violations_after(|crates| {
        crates.insert(TESTKIT.to_owned(), Dependencies::default());
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_dependency_without_an_arrow_is_reported() {
    let found = violations_after(|crates| {
        crates.get_mut("low").unwrap().normal = set(&["high"]);
    });
    assert_eq!(found, ["`low` depends on `high` without an arrow"]);
}

#[test]
fn an_arrow_without_a_dependency_is_reported() {
    let found = violations_after(|crates| {
        crates.get_mut("high").unwrap().normal = set(&[]);
    });
    assert_eq!(found, ["the arrow from `high` to `low` is not used"]);
}

#[test]
fn a_crate_that_the_page_does_not_list_is_reported() {
    let found = violations_after(|crates| {
        crates.insert("new".to_owned(), Dependencies::default());
    });
    assert_eq!(found, ["`new` is not listed"]);
}

#[test]
fn a_listed_crate_that_does_not_exist_is_reported() {
    let found = violations_after(|crates| {
        crates.remove("high");
    });
    assert_eq!(
        found,
        ["`high` is listed but is not a crate of the workspace"]
    );
}

#[test]
fn tests_may_use_the_testkit_and_crates_with_an_arrow() {
    let found = violations_after(|crates| {
        crates.get_mut("high").unwrap().dev = set(&["low", TESTKIT]);
        crates.get_mut("low").unwrap().dev = set(&["high"]);
    });
    assert_eq!(found, ["tests of `low` depend on `high` without an arrow"]);
}

#[test]
fn shipping_code_may_not_use_the_testkit() {
    let found = violations_after(|crates| {
        crates.get_mut("low").unwrap().normal = set(&[TESTKIT]);
    });
    assert_eq!(found, ["`low` depends on `elevo-testkit` without an arrow"]);
}

#[test]
fn a_forbidden_crate_is_reported_where_it_is_forbidden() {
    let found = violations_after(|crates| {
        for dependencies in crates.values_mut() {
            dependencies.reached = set(&["tokio"]);
        }
    });
    assert_eq!(found, ["`low` reaches `tokio`, which is forbidden"]);
}

#[test]
fn only_outside_crates_can_be_forbidden() {
    let rules = Rules::parse(&PAGE.replace("low -> tokio", "low -> high")).unwrap();
    let crates = ["low", "high", TESTKIT].map(|name| (name.to_owned(), Dependencies::default()));
    let found = rules.violations(&Workspace {
        crates: BTreeMap::from(crates),
    });
    assert_eq!(
        found[0],
        "`high` is forbidden but comes from the workspace: leave out its arrow"
    );
}

#[test]
fn a_page_without_a_block_or_with_a_malformed_line_does_not_parse() {
    assert_eq!(Rules::parse("").unwrap_err(), "no block `arrows`");
    assert_eq!(
        Rules::parse(&PAGE.replace("high -> low", "high low")).unwrap_err(),
        "no arrow in `high low`"
    );
    assert_eq!(
        Rules::parse(&PAGE.replace("high -> low", "low -> high")).unwrap_err(),
        "`low` is listed twice"
    );
}
