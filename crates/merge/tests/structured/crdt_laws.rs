//! The laws of JSON without conflicts, for all types that promise them.

use std::collections::{BTreeMap, BTreeSet};

use elevo_merge::Crdt;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

use crate::support::clean;

/// A state of the document.
#[derive(Clone, Debug)]
struct State {
    counter: i64,
    set: Vec<u8>,
    list: Vec<u8>,
    map: BTreeMap<String, Field>,
    tasks: BTreeMap<u8, BTreeMap<String, (u8, u32)>>,
}

#[derive(Clone, Debug)]
enum Field {
    Set(Vec<u8>),
    Register(u8, u32),
    Map(BTreeMap<String, Vec<u8>>),
}

impl Field {
    fn json(&self) -> Value {
        match self {
            Field::Set(set) => json!(set),
            Field::Register(value, at) => json!({"value": value, "at": at}),
            Field::Map(map) => json!(map),
        }
    }
}

impl State {
    fn text(&self) -> String {
        let map: BTreeMap<_, _> = self
            .map
            .iter()
            .map(|(key, field)| (key, field.json()))
            .collect();
        let tasks: Vec<_> = self
            .tasks
            .iter()
            .map(|(id, fields)| {
                let mut task = json!({"id": id});
                for (key, (value, at)) in fields {
                    task[key] = json!({"value": value, "at": at});
                }
                task
            })
            .collect();
        let types = json!({"types": {"/counter": "counter", "/set": "set"}});
        let all = json!({
            "$crdt": types, "counter": self.counter, "set": self.set, "list": self.list,
            "map": map, "tasks": tasks,
        });
        serde_json::to_string_pretty(&all).unwrap()
    }
}

fn distinct(range: std::ops::Range<u8>) -> impl Strategy<Value = Vec<u8>> {
    subsequence(range.clone().collect::<Vec<_>>(), 0..range.len()).prop_shuffle()
}

fn fields() -> impl Strategy<Value = Field> {
    // The key of a field depends on its kind, so that a field never changes its
    // kind.
    prop_oneof![
        distinct(0..5).prop_map(Field::Set),
        (0..9u8, 1..50u32).prop_map(|(value, at)| Field::Register(value, at)),
        prop::collection::btree_map("[a-c]", distinct(0..4), 0..3).prop_map(Field::Map),
    ]
}

fn maps() -> impl Strategy<Value = BTreeMap<String, Field>> {
    prop::collection::vec(("[a-c]", fields()), 0..5).prop_map(|entries| {
        let named = entries.into_iter().map(|(key, field)| {
            let kind = match field {
                Field::Set(_) => "s",
                Field::Register(..) => "r",
                Field::Map(_) => "m",
            };
            (format!("{kind}{key}"), field)
        });
        named.collect()
    })
}

type Tasks = BTreeMap<u8, BTreeMap<String, (u8, u32)>>;

fn tasks(ids: std::ops::Range<u8>) -> impl Strategy<Value = Tasks> {
    let fields = prop::collection::btree_map("[a-c]", (0..9u8, 1..50u32), 0..3);
    prop::collection::btree_map(ids, fields, 0..4)
}

prop_compose! {
    fn bases()(
        counter in -9..9i64, set in distinct(0..6), list in distinct(0..6), map in maps(),
        tasks in tasks(0..4),
    ) -> State {
        State { counter, set, list, map, tasks }
    }
}

/// The change of a branch to a list: the elements that it keeps, and the places
/// of those that it adds.
#[derive(Clone, Debug)]
struct Change {
    keep: Vec<bool>,
    add: BTreeMap<u8, prop::sample::Index>,
}

impl Change {
    fn any() -> impl Strategy<Value = Change> {
        let add = prop::collection::btree_map(10..16u8, any::<prop::sample::Index>(), 0..3);
        (prop::collection::vec(prop::bool::weighted(0.7), 6), add)
            .prop_map(|(keep, add)| Change { keep, add })
    }

    fn apply(&self, list: &[u8]) -> Vec<u8> {
        let kept = list.iter().zip(&self.keep).filter(|(_, keep)| **keep);
        let mut changed: Vec<_> = kept.map(|(element, _)| *element).collect();
        for (element, at) in &self.add {
            changed.insert(at.index(changed.len() + 1), *element);
        }
        changed
    }
}

#[derive(Clone, Debug)]
struct Branch {
    counter: i64,
    set: Change,
    list: Change,
    removed: BTreeSet<String>,
    changed: BTreeMap<String, Field>,
    tasks: Tasks,
}

prop_compose! {
    fn branches()(
        counter in -9..9i64, set in Change::any(), list in Change::any(),
        removed in prop::collection::btree_set("[srm][a-c]", 0..4), changed in maps(),
        tasks in tasks(0..8),
    ) -> Branch {
        Branch { counter, set, list, removed, changed, tasks }
    }
}

impl Branch {
    fn of(&self, base: &State) -> State {
        let mut state = base.clone();
        state.counter += self.counter;
        state.set = self.set.apply(&base.set);
        state.list = self.list.apply(&base.list);
        state.map.retain(|key, _| !self.removed.contains(key));
        for (key, field) in &self.changed {
            state.map.insert(key.clone(), field.clone());
        }
        for (id, fields) in &self.tasks {
            state.tasks.entry(*id).or_default().extend(fields.clone());
        }
        state
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Sorts the lists that are nested in maps. Branches may have moved their
/// elements, so the order of these lists is not promised.
fn settled(mut value: Value) -> Value {
    fn sort(value: &mut Value) {
        match value {
            Value::Array(list) => list.sort_by_key(Value::to_string),
            Value::Object(map) => map.values_mut().for_each(sort),
            _ => {}
        }
    }
    sort(&mut value["map"]);
    value
}

proptest! {
    #[test]
    fn any_order_of_branches_gives_one_result(
        base in bases(), branches in [branches(), branches(), branches()],
    ) {
        let texts = branches.map(|branch| branch.of(&base).text());
        let base = base.text();
        let merged = |order: [usize; 3]| {
            let two = clean(&Crdt, &base, &texts[order[0]], &texts[order[1]]);
            settled(value(&clean(&Crdt, &base, &two, &texts[order[2]])))
        };
        let first = merged([0, 1, 2]);
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            prop_assert_eq!(&first, &merged(order), "{:?}", order);
        }
    }

    #[test]
    fn a_branch_that_was_merged_changes_nothing(
        base in bases(), one in branches(), other in branches(),
    ) {
        let [one, other] = [one, other].map(|branch| branch.of(&base).text());
        let merged = clean(&Crdt, &base.text(), &one, &other);
        prop_assert_eq!(&clean(&Crdt, &other, &merged, &other), &merged);
        prop_assert_eq!(&clean(&Crdt, &one, &merged, &one), &merged);
    }

    #[test]
    fn nothing_that_a_branch_added_is_lost(
        base in bases(), one in branches(), other in branches(),
    ) {
        let states = [one.of(&base), other.of(&base)];
        let [one, other] = states.each_ref().map(State::text);
        let merged = value(&clean(&Crdt, &base.text(), &one, &other));
        for state in &states {
            for element in state.list.iter().filter(|element| !base.list.contains(element)) {
                prop_assert!(merged["list"].as_array().unwrap().contains(&json!(element)));
            }
            for key in state.map.keys().filter(|key| !base.map.contains_key(*key)) {
                prop_assert!(merged["map"].get(key).is_some());
            }
        }
    }
}
