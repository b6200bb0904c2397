//! Tests `docs/permissions.md`: compiles its policies, and checks each row of the
//! tables below them.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_core::TreePath;
use elevo_policy::{Access, Compiled, Doing, Policy};

const PAGE: &str = include_str!("../../../docs/permissions.md");

/// A table, with the policy that comes before it.
struct Table {
    policy: Option<Compiled>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn cells(line: &str) -> Vec<String> {
    let cells = line.trim().trim_matches('|').split('|');
    cells
        .map(|cell| cell.trim().trim_matches('`').to_owned())
        .collect()
}

/// Returns all tables of the page; every block of JSON must be a valid policy.
fn tables() -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut policy = None;
    let mut lines = PAGE.lines();
    let mut in_table = false;
    while let Some(line) = lines.next() {
        if line == "```json" {
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            let parsed: Policy = serde_json::from_str(&block.join("\n")).unwrap();
            policy = Some(parsed.compile().unwrap());
        }
        if !line.starts_with('|') {
            in_table = false;
        } else if !in_table {
            in_table = true;
            lines.next();
            tables.push(Table {
                policy: policy.clone(),
                columns: cells(line),
                rows: Vec::new(),
            });
        } else if let Some(table) = tables.last_mut() {
            table.rows.push(cells(line));
        }
    }
    tables
}

/// Returns the rows of all tables with these columns, each with its policy; at
/// least `least` rows.
fn rows(columns: &[&str], least: usize) -> Vec<(Compiled, Vec<String>)> {
    let tables = tables().into_iter();
    let tables = tables.filter(|table| table.columns == columns);
    let rows: Vec<_> = tables
        .flat_map(|table| {
            let policy = table.policy.unwrap();
            let rows = table.rows.into_iter();
            rows.map(move |row| (policy.clone(), row))
        })
        .collect();
    assert!(rows.len() >= least, "{} rows of {columns:?}", rows.len());
    rows
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

#[test]
fn levels_allow_the_actions_on_the_page() {
    let table = tables().into_iter().next().unwrap();
    assert_eq!(table.columns[0], "access");
    assert_eq!(table.rows.len(), 5);
    for row in table.rows {
        let access: Access = serde_json::from_value(row[0].clone().into()).unwrap();
        let allowed =
            [Doing::Create, Doing::Change, Doing::Remove].map(|doing| access >= doing.needs());
        let see = yes_or_no(access >= Access::Read);
        let [create, change, remove] = allowed.map(yes_or_no);
        assert_eq!(row, [access.as_str(), see, create, change, remove]);
    }
}

#[test]
fn agents_have_the_access_that_the_page_says() {
    for (policy, row) in rows(&["agent", "path", "access"], 10) {
        let access = policy.for_agent(Some(&row[0])).access(&path(&row[1]));
        assert_eq!(access.as_str(), row[2], "{row:?}");
    }
}

#[test]
fn agents_may_do_the_actions_of_the_scenarios() {
    for (policy, row) in rows(&["agent", "path", "see", "create", "change", "remove"], 16) {
        let (view, path) = (policy.for_agent(Some(&row[0])), path(&row[1]));
        let see = view.access(&path) != Access::None;
        assert_eq!(yes_or_no(see), row[2], "{row:?}");
        for (doing, said) in [Doing::Create, Doing::Change, Doing::Remove]
            .iter()
            .zip(&row[3..])
        {
            let checked = view.check(&path, *doing);
            assert_eq!(yes_or_no(checked.is_ok()), said, "{row:?}: {checked:?}");
            let refusal = checked.err();
            assert_eq!(refusal.is_some_and(|refusal| refusal.doing.is_none()), !see);
        }
        let owner = policy.for_agent(None);
        assert_eq!(owner.check(&path, Doing::Remove), Ok(()));
    }
}

#[test]
fn conflicts_are_settled_as_the_page_says() {
    for (policy, row) in rows(&["path", "strategy"], 6) {
        assert_eq!(policy.strategy(&path(&row[0])).as_str(), row[1], "{row:?}");
    }
}

#[test]
fn paths_are_local_as_the_page_says() {
    for (policy, row) in rows(&["path", "local"], 6) {
        let local = policy.local().always(&path(&row[0]), false);
        assert_eq!(yes_or_no(local), row[1], "{row:?}");
    }
}

#[test]
fn views_of_the_scenarios_say_how_trees_can_be_shown() {
    let policies = rows(&["agent", "path", "see", "create", "change", "remove"], 16);
    let of = |agent: &str, path: &str| {
        let mut rows = policies.iter();
        let found = rows.find(|(_, row)| row[0] == agent && row[1] == path);
        found.unwrap().0.for_agent(Some(agent))
    };

    let reader = of("ada", "data.json");
    assert!(reader.is_read_only() && !reader.hides_anything());
    assert_eq!(reader.uniform(&TreePath::root()), Some(Access::Read));

    let adder = of("ada", "report-a.md");
    assert!(!adder.is_read_only() && !adder.hides_anything());
    assert_eq!(adder.uniform(&TreePath::root()), Some(Access::Append));

    let mixed = of("ada", "shared-config.json");
    assert!(!mixed.is_read_only() && mixed.hides_anything());
    for (directory, access) in [
        ("", None),
        ("ada-workspace", Some(Access::Full)),
        ("ada-workspace/notes", Some(Access::Full)),
        ("bob-workspace", Some(Access::None)),
        ("dropbox", Some(Access::Append)),
        ("public-data", Some(Access::Read)),
        ("elsewhere", Some(Access::Read)),
    ] {
        assert_eq!(mixed.uniform(&path(directory)), access, "{directory}");
    }
}
