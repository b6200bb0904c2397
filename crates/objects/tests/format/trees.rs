//! Trees: equal content gives equal trees, however they were built.

use std::collections::BTreeMap;
use std::sync::Arc;

use elevo_core::Name;
use elevo_objects::{
    ChunkItem, Content, DirItem, Entry, Item, Kind, Link, MAX_CHUNK, MAX_ITEMS, MIN_ITEMS, Mode,
    Node, Root, Run, Totals, Tree, TreeBuilder, is_boundary,
};
use proptest::prelude::*;

use crate::forest::{Changes, Edit, Forest, Splice};
use crate::samples::{DENSE_NAMES, any_chunk_item, any_hash, file, hash_of, name};

/// Returns the lengths of the nodes of each level, leaves first.
fn shape<I: Item>(forest: &Forest<I>, root: &Root) -> Vec<Vec<usize>> {
    let lengths = |level: &Vec<Arc<Node<I>>>| level.iter().map(|node| node.len()).collect();
    forest.levels(root).iter().map(lengths).collect()
}

/// Whether a node ends where the rule requires, and not later.
fn ends_by_the_rule<I: Item>(node: &Node<I>) -> bool {
    let spreads: Vec<u64> = match node {
        Node::Leaf(items) => items.iter().map(I::spread).collect(),
        Node::Index { children, .. } => children
            .iter()
            .map(|child| I::child_spread(&child.last, &child.hash))
            .collect(),
    };
    let ends = |length: usize| {
        length == MAX_ITEMS
            || (length >= MIN_ITEMS && is_boundary(spreads[length - 1], node.height()))
    };
    ends(spreads.len()) && !(1..spreads.len()).any(ends)
}

fn check_rule<I: Item>(forest: &Forest<I>, root: &Root) {
    for level in forest.levels(root) {
        let (_, all_but_last) = level.split_last().expect("no level is empty");
        assert!(all_but_last.iter().all(|node| ends_by_the_rule(node)));
    }
}

/// Checks that the tree after `edit`, applied as the engine does, equals the
/// tree built from `items`.
fn check_edit<I: Item>(
    forest: &mut Forest<I>,
    old: &Root,
    edit: &impl Edit<I>,
    items: Vec<I>,
) -> Option<Root> {
    let edited = forest.edit(old, edit);
    let anew = Forest::new().build(items.clone());
    assert_eq!(edited, anew);
    if let Some(root) = &edited {
        check_rule(forest, root);
        assert_eq!(forest.items(root), items);
    }
    edited
}

fn any_changes(names: Vec<Name>) -> impl Strategy<Value = Changes<DirItem>> {
    let change = (
        prop::sample::select(names),
        prop::option::weighted(0.6, 1_u64..1000),
    );
    prop::collection::vec(change, 1..40).prop_map(|changes| {
        let item = |(name, version): (Name, Option<u64>)| {
            let item = version.map(|version| file(name.clone(), version));
            (name, item)
        };
        Changes(changes.into_iter().map(item).collect())
    })
}

/// A range of names to remove together, so that whole subtrees disappear.
fn any_hole(names: Vec<Name>) -> impl Strategy<Value = Changes<DirItem>> {
    (0..names.len(), 0..names.len()).prop_map(move |(a, b)| {
        let hole = &names[a.min(b)..=a.max(b)];
        Changes(hole.iter().map(|name| (name.clone(), None)).collect())
    })
}

#[test]
fn an_empty_tree_has_no_root() {
    assert_eq!(Forest::<DirItem>::new().build([]), None);
}

#[test]
fn one_item_is_a_leaf_and_the_root() {
    let mut forest = Forest::new();
    let root = forest.build([file(name("only"), 1)]).unwrap();
    assert_eq!((root.height, forest.node(root.hash).len()), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_edited_directory_equals_one_built_from_scratch(
        chosen in prop::sample::subsequence(DENSE_NAMES.clone(), 1..500),
        edits in prop::collection::vec(
            prop_oneof![3 => any_changes(DENSE_NAMES.clone()), 1 => any_hole(DENSE_NAMES.clone())],
            1..5,
        ),
    ) {
        let mut model: BTreeMap<_, _> =
            chosen.into_iter().map(|name| (name.clone(), file(name, 0))).collect();
        let mut forest = Forest::new();
        let mut root = forest.build(model.values().cloned()).unwrap();
        check_rule(&forest, &root);
        for edit in edits {
            edit.apply_to(&mut model);
            let items = model.values().cloned().collect();
            match check_edit(&mut forest, &root, &edit, items) {
                Some(edited) => root = edited,
                None => break,
            }
        }
    }

    #[test]
    fn an_edited_chunk_list_equals_one_built_from_scratch(
        mut chunks in prop::collection::vec(any_chunk_item(), 1..400),
        tail in 1..20_000_u64,
        places in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        with in prop::collection::vec(any_chunk_item(), 0..40),
    ) {
        let mut forest = Forest::new();
        chunks.last_mut().unwrap().size = tail;
        let root = forest.build(chunks.iter().copied()).unwrap();
        check_rule(&forest, &root);
        let (a, b) = (places.0.index(chunks.len()), places.1.index(chunks.len()));
        let (start, end) = (a.min(b), a.max(b));
        let edit = Splice { start: start as u64, end: end as u64, with: with.clone() };
        chunks.splice(start..end, with);
        check_edit(&mut forest, &root, &edit, chunks);
    }

    #[test]
    fn chunks_appended_to_a_list_give_the_list_built_from_scratch(
        mut chunks in prop::collection::vec(any_chunk_item(), 1..400),
        with in prop::collection::vec(any_chunk_item(), 1..40),
    ) {
        let mut forest = Forest::new();
        let root = forest.build(chunks.iter().copied()).unwrap();
        let end = chunks.len() as u64;
        let edit = Splice { start: end, end, with: with.clone() };
        chunks.extend(with);
        check_edit(&mut forest, &root, &edit, chunks);
    }

    #[test]
    fn a_run_pushed_at_once_gives_the_list_built_from_scratch(
        before in prop::collection::vec(any_chunk_item(), 0..300),
        run in any_chunk_item(),
        count in prop_oneof![0..600_u64, 65_000..70_000_u64],
        after in prop::collection::vec(any_chunk_item(), 0..300),
    ) {
        let mut anew = Forest::new();
        let repeated = std::iter::repeat_n(run, count as usize);
        let items = before.iter().copied().chain(repeated).chain(after.iter().copied());
        let expected = anew.build(items);
        let mut builder = TreeBuilder::new();
        before.into_iter().for_each(|item| builder.push(item));
        builder.push_run(&Run::new(run, 1 << 30), count);
        after.into_iter().for_each(|item| builder.push(item));
        prop_assert_eq!(builder.finish(), expected);
        let mut made = Forest::new();
        made.keep(&mut builder);
        let mut old = anew.take_made();
        let mut new = made.take_made();
        for sizes in [&mut old, &mut new] {
            sizes.sort_unstable();
        }
        prop_assert_eq!(new, old);
    }

    #[test]
    fn a_changed_value_moves_no_boundary_and_makes_one_node_a_level(
        chosen in prop::sample::subsequence(DENSE_NAMES.clone(), 1..500),
        place: prop::sample::Index,
        hash in any_hash(),
    ) {
        let mut forest = Forest::new();
        let root = forest.build(chosen.iter().map(|name| file(name.clone(), 0))).unwrap();
        forest.take_made();
        let name = place.get(&chosen).clone();
        let entry = Entry::Link(Link { hash, size: 1 });
        let item = DirItem { name: name.clone(), entry };
        let edited = forest.edit(&root, &Changes([(name, Some(item))].into())).unwrap();
        prop_assert_eq!(shape(&forest, &edited), shape(&forest, &root));
        prop_assert_eq!(forest.take_made().len(), usize::from(root.height) + 1);
    }
}

#[test]
fn the_rest_of_a_high_tree_has_the_minimum_height() {
    let names = DENSE_NAMES.clone();
    let mut forest = Forest::new();
    let root = forest
        .build(names.iter().map(|name| file(name.clone(), 0)))
        .unwrap();
    assert!(root.height > 3);
    for kept in [1, 2, 3, 5, 50] {
        let (gone, left) = names.split_at(names.len() - kept);
        let edit = Changes(gone.iter().map(|name| (name.clone(), None)).collect());
        let items = left.iter().map(|name| file(name.clone(), 0)).collect();
        check_edit(&mut forest, &root, &edit, items);
    }
}

#[test]
fn totals_are_sums_over_all_items_below() {
    let mode = Mode::EXECUTABLE;
    let entries = [
        Entry::Link(Link {
            hash: hash_of(0),
            size: 4,
        }),
        Entry::Directory {
            mode,
            tree: Tree::EMPTY,
        },
        Entry::Directory {
            mode,
            tree: Tree {
                root: Some(hash_of(1)),
                count: 7,
                bytes: 100,
            },
        },
        Entry::File {
            mode,
            content: Content::List {
                hash: hash_of(2),
                size: 20_000,
            },
        },
        Entry::File {
            mode,
            content: Content::Empty,
        },
    ];
    let names = DENSE_NAMES[..500].iter().cloned();
    let items = names
        .zip(entries.into_iter().cycle())
        .map(|(name, entry)| DirItem { name, entry });
    let root = Forest::new().build(items).unwrap();
    assert!(root.height > 2);
    let expected = Totals {
        items: 500,
        count: 100 * (1 + 1 + 8 + 1 + 1),
        bytes: 100 * 20_100,
    };
    assert_eq!(root.totals, expected);
}

#[test]
fn a_hundred_thousand_names_make_nodes_of_the_expected_size() {
    let mut forest = Forest::new();
    let items = (0..100_000).map(|number| file(name(format!("file-{number:06}")), number));
    let root = forest.build(items).unwrap();
    let shape = shape(&forest, &root);
    assert_eq!(root.height, 2, "{shape:?}");
    // On average, one item in 64 ends its node; the first item of a node never
    // does, and the 256th always does.
    let expected = 1.0 + 64.0 * (1.0 - (63.0_f64 / 64.0).powi(255));
    for level in &shape[..2] {
        let (_, whole) = level.split_last().unwrap();
        assert!(
            whole
                .iter()
                .all(|length| (MIN_ITEMS..=MAX_ITEMS).contains(length))
        );
    }
    let mean = 100_000.0 / shape[0].len() as f64;
    assert!(
        (mean / expected - 1.0).abs() < 0.05,
        "{mean} items a leaf, not {expected}"
    );
    let full = shape[0]
        .iter()
        .filter(|length| **length == MAX_ITEMS)
        .count();
    let share = full as f64 / shape[0].len() as f64;
    assert!(
        (0.01..0.03).contains(&share),
        "{share} of the leaves are full"
    );
}

#[test]
fn a_long_run_of_one_chunk_is_cut_by_count_and_shares_its_nodes() {
    let hash = Kind::Chunk.hash(&vec![0; MAX_CHUNK]);
    let zeros = ChunkItem {
        hash,
        size: MAX_CHUNK as u64,
    };
    assert!(!is_boundary(zeros.spread(), 0));
    let mut forest = Forest::new();
    let root = forest.build(vec![zeros; 40_960]).unwrap();
    let sizes = forest.take_made();
    assert_eq!(root.totals.bytes, 10 << 30);
    assert!(
        sizes.len() <= 4,
        "{} nodes for 10 GiB of zeros",
        sizes.len()
    );
    let other = ChunkItem {
        hash: hash_of(1),
        ..zeros
    };
    forest
        .edit(
            &root,
            &Splice {
                start: 0,
                end: 1,
                with: vec![other],
            },
        )
        .unwrap();
    assert!(forest.take_made().len() <= 4);
}
