//! A file as a tree that keeps every byte of its text.
//!
//! A container consists of its items and the text between them:
//!
//! ```text
//! {                head
//!   "a" : 1 , // x  lead, label, sep, value, mid, comma, trail
//! }                tail
//! ```

use std::collections::HashMap;
use std::rc::Rc;

/// One of the two sides of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

/// A parsed file, whose text is `head`, the text of `root`, and `tail`.
#[derive(Debug)]
pub(crate) struct Doc<'a> {
    pub(crate) head: &'a str,
    pub(crate) root: Node<'a>,
    pub(crate) tail: &'a str,
}

/// A value with its text.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) text: &'a str,
    pub(crate) meaning: Meaning,
    pub(crate) kind: Kind<'a>,
}

/// The content of a value.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    /// The value in a canonical spelling, such as a string without escapes.
    Scalar(Rc<str>),
    Map(Box<Container<'a>>),
    List(Box<Container<'a>>),
}

/// The inside of a map or a list.
#[derive(Debug)]
pub(crate) struct Container<'a> {
    pub(crate) head: &'a str,
    pub(crate) items: Vec<Item<'a>>,
    pub(crate) tail: &'a str,
    /// Whether items are separated by commas, or by lines.
    pub(crate) commas: bool,
}

/// An entry of a map or an element of a list.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) lead: &'a str,
    /// The key as written.
    pub(crate) label: &'a str,
    /// The key without quotes and escapes; empty in lists.
    pub(crate) name: Rc<str>,
    pub(crate) sep: &'a str,
    pub(crate) value: Node<'a>,
    pub(crate) mid: &'a str,
    pub(crate) comma: bool,
    pub(crate) trail: &'a str,
}

impl<'a> Node<'a> {
    pub(crate) fn as_map(&self) -> Option<&Container<'a>> {
        match &self.kind {
            Kind::Map(container) => Some(container),
            Kind::Scalar(_) | Kind::List(_) => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&Container<'a>> {
        match &self.kind {
            Kind::List(container) => Some(container),
            Kind::Scalar(_) | Kind::Map(_) => None,
        }
    }

    /// Whether both text and meaning are equal.
    pub(crate) fn same(&self, other: &Node<'_>) -> bool {
        self.meaning == other.meaning && self.text == other.text
    }
}

impl<'a> Container<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&Item<'a>> {
        self.items.iter().find(|item| &*item.name == name)
    }

    /// Whether a comma follows the last item; `None` without items.
    pub(crate) fn ends_with_comma(&self) -> Option<bool> {
        self.items.last().map(|item| item.comma)
    }
}

/// Finds items by name; fastest if they are looked up in their order.
#[derive(Debug)]
pub(crate) struct Finder<'t, 'a> {
    items: &'t [Item<'a>],
    next: usize,
    places: Option<HashMap<&'t str, usize>>,
}

impl<'t, 'a> Finder<'t, 'a> {
    pub(crate) fn new(container: Option<&'t Container<'a>>) -> Self {
        Self {
            items: container.map_or(&[], |container| &container.items),
            next: 0,
            places: None,
        }
    }

    pub(crate) fn names(&self) -> Vec<&'t str> {
        self.items.iter().map(|item| &*item.name).collect()
    }

    pub(crate) fn find(&mut self, name: &str) -> Option<&'t Item<'a>> {
        let items = self.items;
        let at = match items.get(self.next) {
            Some(item) if &*item.name == name => self.next,
            _ => {
                let places = self.places.get_or_insert_with(|| {
                    let places = items.iter().enumerate();
                    places.map(|(at, item)| (&*item.name, at)).collect()
                });
                *places.get(name)?
            }
        };
        self.next = at + 1;
        Some(&items[at])
    }
}

/// Identifies the meaning of a value: values with different spellings, or maps
/// with another order of entries, have equal `Meaning`s if they mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Meaning(u32);

/// Assigns equal numbers to equal values.
#[derive(Debug, Default)]
pub(crate) struct Meanings {
    scalars: HashMap<Rc<str>, Meaning>,
    maps: HashMap<Vec<(Meaning, Meaning)>, Meaning>,
    lists: HashMap<Vec<Meaning>, Meaning>,
}

impl Meanings {
    /// Returns the meaning and the shared text of a scalar. Scalars with
    /// different values or types must have different texts.
    pub(crate) fn scalar(&mut self, text: &str) -> (Meaning, Rc<str>) {
        if let Some((text, meaning)) = self.scalars.get_key_value(text) {
            return (*meaning, Rc::clone(text));
        }
        let (text, next): (Rc<str>, _) = (text.into(), self.next());
        self.scalars.insert(Rc::clone(&text), next);
        (next, text)
    }

    /// Returns the meaning of a map; `None` if a key is duplicated.
    pub(crate) fn map<'n>(
        &mut self,
        entries: impl Iterator<Item = (&'n Rc<str>, Meaning)>,
    ) -> Option<Meaning> {
        let mut pairs: Vec<_> = entries
            .map(|(name, value)| (self.scalar(name).0, value))
            .collect();
        pairs.sort_unstable();
        let twice = pairs.windows(2).any(|pair| pair[0].0 == pair[1].0);
        let next = self.next();
        (!twice).then(|| *self.maps.entry(pairs).or_insert(next))
    }

    pub(crate) fn list(&mut self, elements: impl Iterator<Item = Meaning>) -> Meaning {
        let next = self.next();
        *self.lists.entry(elements.collect()).or_insert(next)
    }

    fn next(&self) -> Meaning {
        Meaning((self.scalars.len() + self.maps.len() + self.lists.len()) as u32)
    }
}

/// Builds the nodes of one document, within limits.
#[derive(Debug)]
pub(crate) struct Builder<'m> {
    pub(crate) meanings: &'m mut Meanings,
    left: usize,
}

/// Maximum nesting depth, and maximum number of values. The text driver merges
/// files that exceed one of these limits.
pub(crate) const MAX_DEPTH: usize = 128;
pub(crate) const MAX_NODES: usize = 250_000;

impl<'m> Builder<'m> {
    pub(crate) fn new(meanings: &'m mut Meanings) -> Self {
        Self {
            meanings,
            left: MAX_NODES,
        }
    }

    fn count(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    pub(crate) fn scalar<'a>(&mut self, text: &'a str, value: &str) -> Option<Node<'a>> {
        self.count()?;
        let (meaning, value) = self.meanings.scalar(value);
        Some(Node {
            text,
            meaning,
            kind: Kind::Scalar(value),
        })
    }

    /// Builds a map; `None` if a key is duplicated, or the document has too
    /// many values.
    pub(crate) fn map<'a>(&mut self, text: &'a str, container: Container<'a>) -> Option<Node<'a>> {
        self.count()?;
        let entries = container.items.iter();
        let meaning = self
            .meanings
            .map(entries.map(|item| (&item.name, item.value.meaning)))?;
        Some(Node {
            text,
            meaning,
            kind: Kind::Map(Box::new(container)),
        })
    }

    pub(crate) fn list<'a>(&mut self, text: &'a str, container: Container<'a>) -> Option<Node<'a>> {
        self.count()?;
        let elements = container.items.iter();
        let meaning = self.meanings.list(elements.map(|item| item.value.meaning));
        Some(Node {
            text,
            meaning,
            kind: Kind::List(Box::new(container)),
        })
    }
}
