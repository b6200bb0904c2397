//! Malicious names. Boundaries depend on xxh3, which does not stop an attacker
//! from finding names that are all boundaries, or none.

use elevo_core::Name;
use elevo_objects::{DirItem, Item, MAX_HEIGHT, MAX_ITEMS, is_boundary};

use crate::forest::{Changes, Forest};
use crate::samples::{always_boundaries, file, name, spread};

fn files(names: &[Name]) -> impl Iterator<Item = DirItem> {
    names.iter().map(|name| file(name.clone(), 0))
}

#[test]
fn names_that_are_all_boundaries_make_a_binary_tree_and_no_higher() {
    let names = always_boundaries(300);
    assert!(files(&names).all(|item| item.spread() == 0));
    assert!((0..=MAX_HEIGHT).all(|height| is_boundary(0, height)));
    let mut forest = Forest::new();
    for count in [1, 2, 3, 4, 7, 100, 300] {
        let root = forest.build(files(&names[..count])).unwrap();
        let levels = forest.levels(&root);
        assert!(levels.iter().flatten().all(|node| node.len() <= 2));
        assert_eq!(
            u32::from(root.height),
            (count as u32).next_power_of_two().ilog2().max(1) - 1
        );
    }
}

#[test]
fn names_without_boundaries_are_cut_by_count() {
    let numbers = (0..).map(|number| name(format!("{number:08}")));
    let names: Vec<Name> = numbers
        .filter(|name| !spread(name, 0) && !spread(name, 1))
        .take(70_000)
        .collect();
    let mut forest = Forest::new();
    let root = forest.build(files(&names)).unwrap();
    let levels = forest.levels(&root);
    assert_eq!(levels.iter().map(Vec::len).collect::<Vec<_>>(), [274, 2, 1]);
    let (_, full) = levels[0].split_last().unwrap();
    assert!(full.iter().all(|node| node.len() == MAX_ITEMS));

    // An insertion at the front moves every boundary of the run; nodes stay
    // bounded.
    forest.take_made();
    let edit = Changes([(name("!"), Some(file(name("!"), 0)))].into());
    let edited = forest.edit(&root, &edit).unwrap();
    assert_eq!(forest.take_made().len(), 274 + 2 + 1);
    assert!(
        forest
            .levels(&edited)
            .iter()
            .flatten()
            .all(|node| node.len() <= MAX_ITEMS)
    );
}
