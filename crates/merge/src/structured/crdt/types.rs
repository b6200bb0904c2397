//! The types that a file declares for its fields.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::structured::node::{Container, Doc, Kind};
use crate::structured::plan::Docs;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Counter,
    List,
    Register,
    Set,
}

/// Path patterns and their types; patterns with fewer `*` first.
#[derive(Debug)]
pub(super) struct Types(Vec<(Vec<String>, Type)>);

const MAX_TYPES: usize = 256;

impl Types {
    /// Combines the declarations of both sides. Where the sides disagree, the
    /// side that changed the declaration wins; if both did, the type whose name
    /// comes first. Returns `None` if there are more than `MAX_TYPES`
    /// declarations.
    pub(super) fn of(docs: &Docs<'_, '_>) -> Option<Self> {
        let base = docs.base.map(declared).unwrap_or_default();
        let (ours, theirs) = (declared(docs.ours), declared(docs.theirs));
        let pointers: Vec<_> = ours.keys().chain(theirs.keys()).copied().collect();
        let mut types = BTreeMap::new();
        for pointer in pointers {
            let [was, our, their] = [&base, &ours, &theirs].map(|side| side.get(pointer).copied());
            let chosen = if our == was {
                their
            } else if their == was {
                our
            } else {
                our.into_iter().chain(their).min()
            };
            types.extend(chosen.map(|chosen| (pointer, chosen)));
        }
        if types.len() > MAX_TYPES {
            return None;
        }
        let mut types: Vec<_> = types
            .into_iter()
            .filter_map(|(pointer, chosen)| Some((steps(pointer)?, chosen)))
            .collect();
        types.sort_by_key(|(steps, _)| steps.iter().filter(|step| *step == "*").count());
        Some(Self(types))
    }

    pub(super) fn at(&self, path: &[Rc<str>]) -> Option<Type> {
        let matches = |steps: &[String]| {
            let mut pairs = steps.iter().zip(path);
            steps.len() == path.len() && pairs.all(|(step, at)| step == "*" || **step == **at)
        };
        let found = self.0.iter().find(|(steps, _)| matches(steps))?;
        Some(found.1)
    }
}

fn declared<'t>(doc: &'t Doc<'_>) -> BTreeMap<&'t str, Type> {
    let types = doc.root.as_map().and_then(|root| {
        root.get("$crdt")?
            .value
            .as_map()?
            .get("types")?
            .value
            .as_map()
    });
    let items = types.map_or(&[][..], |types: &'t Container<'_>| &types.items);
    let declared = items.iter().filter_map(|item| match &item.value.kind {
        Kind::Scalar(name) => Some((&*item.name, named(name)?)),
        Kind::Map(_) | Kind::List(_) => None,
    });
    declared.collect()
}

fn named(name: &str) -> Option<Type> {
    match name {
        "scounter" => Some(Type::Counter),
        "slist" => Some(Type::List),
        "sregister" => Some(Type::Register),
        "sset" => Some(Type::Set),
        _ => None,
    }
}

/// The steps of a JSON pointer.
fn steps(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let steps = pointer.strip_prefix('/')?.split('/');
    Some(
        steps
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect(),
    )
}
