//! Laws of every merge.

use std::collections::BTreeSet;

use elevo_merge::{Limits, TreeMerge};
use elevo_policy::{Access, View};

use super::edits::{Trees, put};
use super::{How, Model, Node, World, held, is_at_or_below, landed, model_of, now, path};

/// A merge of three models, and its result.
pub(crate) struct Done {
    world: World,
    pub(crate) merge: TreeMerge,
    pub(crate) tree: Model,
    pub(crate) held: BTreeSet<String>,
}

pub(crate) fn merge(trees: &Trees, how: &How) -> Done {
    let world = World::new();
    let base = world.snapshot(&trees.base);
    let theirs = world.snapshot(&trees.theirs);
    let merge = how.merge(&base, &world.unsaved(&trees.ours), &theirs);
    Done {
        tree: model_of(&merge.tree),
        held: held(&merge),
        merge,
        world,
    }
}

impl Done {
    fn is_held(&self, place: &str) -> bool {
        self.held.iter().any(|held| is_at_or_below(place, held))
    }

    /// Files and links that are not near a conflict.
    fn settled(&self) -> Model {
        let near = |place: &str| {
            let mut held = self.held.iter();
            held.any(|held| is_at_or_below(place, held) || is_at_or_below(held, place))
        };
        let leaves = self
            .tree
            .iter()
            .filter(|(place, node)| !matches!(node, Node::Directory(_)) && !near(place));
        leaves
            .map(|(place, node)| (place.clone(), node.clone()))
            .collect()
    }
}

pub(crate) fn all(trees: &Trees) {
    let how = How::default();
    let done = merge(trees, &how);
    unchanged_sides(trees);
    only_what_theirs_changed(trees, &done);
    nothing_is_lost(trees, &done);
    conflicts_leave_ours(trees, &done);
    once_is_enough(trees, &how, &done);
    whole_or_in_parts(trees, &how);
    let renames = with_renames();
    let followed = merge(trees, &renames);
    conflicts_leave_ours(trees, &followed);
    once_is_enough(trees, &renames, &followed);
}

pub(crate) fn with_renames() -> How {
    How {
        limits: Limits {
            renames: true,
            ..Limits::default()
        },
        ..How::default()
    }
}

/// If one side is unchanged, the result is the other side.
fn unchanged_sides(trees: &Trees) {
    let theirs_alone = Trees {
        ours: trees.base.clone(),
        ..trees.clone()
    };
    for how in [How::default(), with_renames()] {
        let done = merge(&theirs_alone, &how);
        assert!(done.held.is_empty(), "{:?}", done.held);
        assert_eq!(done.tree, trees.theirs);
        let theirs = now(done.world.unsaved(&trees.theirs).tree()).expect("a tree");
        assert_eq!(now(done.merge.tree.tree()).expect("a tree"), theirs);
        assert_eq!(now(done.merge.agreed.tree()).expect("a tree"), theirs);
        let ours_alone = Trees {
            theirs: trees.base.clone(),
            ..trees.clone()
        };
        let done = merge(&ours_alone, &how);
        assert_eq!(done.tree, trees.ours);
        assert!(landed(&done.merge).is_empty() && done.held.is_empty());
    }
}

fn only_what_theirs_changed(trees: &Trees, done: &Done) {
    for (place, node) in &trees.ours {
        if trees.base.get(place) == trees.theirs.get(place) {
            assert_eq!(done.tree.get(place), Some(node), "{place}");
        }
    }
}

fn nothing_is_lost(trees: &Trees, done: &Done) {
    let places: BTreeSet<_> = trees.base.keys().chain(trees.theirs.keys()).collect();
    for place in places {
        let (base, ours) = (trees.base.get(place), trees.ours.get(place));
        let theirs = trees.theirs.get(place);
        let is_leaf = |node: Option<&Node>| !matches!(node, Some(Node::Directory(_)));
        if base != theirs
            && base == ours
            && is_leaf(base)
            && is_leaf(theirs)
            && !done.is_held(place)
        {
            // Only theirs changed the entry, so the result has the version of
            // theirs.
            let found = done.tree.get(place);
            assert_eq!(found, theirs, "{place}");
        }
    }
}

fn conflicts_leave_ours(trees: &Trees, done: &Done) {
    let part = |model: &Model, above: &str| -> Model {
        let part = model
            .iter()
            .filter(|(place, _)| is_at_or_below(place, above));
        part.map(|(place, node)| (place.clone(), node.clone()))
            .collect()
    };
    for held in &done.held {
        assert_eq!(part(&done.tree, held), part(&trees.ours, held), "{held}");
    }
    assert_eq!(
        done.held.len(),
        done.merge.conflicts.len(),
        "one for a path"
    );
}

/// Changes that were dealt with do not appear in the next merge; held and
/// refused ones do.
fn once_is_enough(trees: &Trees, how: &How, done: &Done) {
    let world = &done.world;
    let agreed = world.save(&done.merge.agreed.clone());
    if done.merge.is_complete() {
        assert_eq!(model_of(&done.merge.agreed), trees.theirs);
    }
    let ours = done.merge.tree.clone();
    let again = how.merge(&agreed, &ours, &world.snapshot(&trees.theirs));
    if how.limits.renames && !again.landed.is_empty() {
        // With a later base, a change may be detected as a move that was not
        // detected before, and a held change may then land. No path lands
        // twice.
        let first = landed(&done.merge);
        assert!(landed(&again).iter().all(|place| !first.contains(place)));
        return;
    }
    assert_eq!(landed(&again), Vec::<String>::new(), "landed twice");
    assert_eq!(held(&again), done.held, "held again");
    assert_eq!(refused(&again), refused(&done.merge), "refused again");
    assert_eq!(model_of(&again.tree), done.tree);
    let mut later = trees.theirs.clone();
    put(&mut later, "later", Node::File(0o644, b"later".to_vec()));
    let more = how.merge(&agreed, &ours, &world.snapshot(&later));
    let expected: &[&str] = match how.agent {
        Some("bounded") => return,
        _ => &["later"],
    };
    assert_eq!(landed(&more), expected);
}

fn refused(merge: &TreeMerge) -> BTreeSet<String> {
    let refused = merge.refused.iter();
    refused.map(|refused| refused.path.to_string()).collect()
}

/// Taking a directory as a whole gives the same result as merging its parts.
fn whole_or_in_parts(trees: &Trees, how: &How) {
    let at = |whole| {
        let mut how = how.clone();
        how.limits.whole = whole;
        merge(trees, &how)
    };
    let (whole, parts) = (at(0), at(u64::MAX));
    assert_eq!(whole.tree, parts.tree);
    assert_eq!(whole.held, parts.held);
    assert_eq!(refused(&whole.merge), refused(&parts.merge));
    assert_eq!(model_of(&whole.merge.agreed), model_of(&parts.merge.agreed));
}

/// Swapping the sides changes nothing.
pub(crate) fn symmetric(trees: &Trees) {
    let swapped = Trees {
        base: trees.base.clone(),
        ours: trees.theirs.clone(),
        theirs: trees.ours.clone(),
    };
    let (one, other) = (
        merge(trees, &How::default()),
        merge(&swapped, &How::default()),
    );
    assert_eq!(one.held, other.held);
    assert_eq!(
        without_layout(one.settled()),
        without_layout(other.settled())
    );
    if one.held.is_empty() {
        assert_eq!(without_layout(one.tree), without_layout(other.tree));
    }
}

/// Removes white space from structured files: where both sides changed it at
/// the same place, the driver keeps ours.
fn without_layout(mut tree: Model) -> Model {
    for (place, node) in &mut tree {
        let is_structured = [".json", ".toml", ".yaml"]
            .iter()
            .any(|end| place.ends_with(end));
        if let (Node::File(_, content), true) = (node, is_structured) {
            content.retain(|byte| !byte.is_ascii_whitespace());
        }
    }
    tree
}

/// Every change has the access that it needs, and hidden paths are not
/// revealed.
pub(crate) fn permitted(trees: &Trees, how: &How) {
    let done = merge(trees, how);
    let view = how.policy.compile().expect("a policy").for_agent(how.agent);
    let places: BTreeSet<_> = trees.ours.keys().chain(done.tree.keys()).collect();
    for place in places {
        let needed = needed(&trees.ours, &done.tree, place);
        let access = view.access(&path(place));
        assert!(
            access >= needed,
            "{place}: {access} where {needed} is needed"
        );
    }
    hidden_stays_hidden(trees, &done.merge, &view);
    whole_or_in_parts(trees, how);
    conflicts_leave_ours(trees, &done);
    once_is_enough(trees, how, &done);
}

fn needed(before: &Model, after: &Model, place: &str) -> Access {
    match (before.get(place), after.get(place)) {
        (before, after) if before == after => Access::None,
        // The directory was created because an entry in it may be created.
        (None, Some(Node::Directory(_)))
            if after
                .keys()
                .any(|other| *other != place && is_at_or_below(other, place)) =>
        {
            Access::None
        }
        (None, _) => Access::Append,
        (Some(Node::File(..)), Some(Node::File(..)))
        | (Some(Node::Link(_)), Some(Node::Link(_)))
        | (Some(Node::Directory(_)), Some(Node::Directory(_))) => Access::Write,
        _ => Access::Full,
    }
}

fn hidden_stays_hidden(trees: &Trees, merge: &TreeMerge, view: &View) {
    let landed = merge.landed.iter();
    let landed = landed.flat_map(|landed| [Some(&landed.path), landed.from.as_ref()]);
    let conflicts = merge.conflicts.iter().map(|conflict| Some(&conflict.path));
    let overruled = merge.overruled.iter().map(|lost| Some(&lost.path));
    for told in landed.chain(conflicts).chain(overruled).flatten() {
        assert!(view.access(told) > Access::None, "{told} is hidden");
    }
    for refused in &merge.refused {
        let is_theirs = trees.theirs.contains_key(&refused.path.to_string());
        let is_shown = view.access(&refused.path) > Access::None;
        assert!(is_shown || is_theirs, "{} is hidden", refused.path);
    }
}
