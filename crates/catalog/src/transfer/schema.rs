//! The tables of a catalog, as its database declares them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Value};
use crate::error::{Error, Result};

/// Tables of only one database: its migrations, and the numbering of events in
/// PostgreSQL.
const NOT_COPIED: [&str; 3] = ["_sqlx_migrations", "last_event", "outbox"];

/// The table that has a row after the migrations. No server has used the catalog
/// as long as no session has begun.
const NODES: &str = "nodes";

/// A column as a database declares it: its table, its name, its type, and its
/// position in the primary key, starting at 1; 0 if it is not in the key.
pub(crate) type ColumnRow = (String, String, String, i64);

/// The stored form of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Bytes,
    Integer,
    Text,
    /// PostgreSQL only. SQLite stores 0 or 1.
    Boolean,
}

impl Form {
    /// Returns the form of a declared type; `None` if it is unknown.
    fn of(declared: &str) -> Option<Self> {
        match declared {
            "BLOB" | "bytea" => Some(Self::Bytes),
            "INTEGER" | "bigint" => Some(Self::Integer),
            "TEXT" | "text" => Some(Self::Text),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }

    /// Returns whether both forms have the same [`Value`]s.
    fn fits(self, other: Self) -> bool {
        let integer = |form| matches!(form, Self::Integer | Self::Boolean);
        self == other || integer(self) && integer(other)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// Sorted by their names, because the databases declare them in different
    /// orders.
    pub(crate) columns: Vec<Column>,
    /// Indexes of the columns of the primary key.
    key: Vec<usize>,
    /// The tables that its foreign keys refer to.
    references: BTreeSet<String>,
}

impl Table {
    /// Returns the statement that selects all rows in the order of the primary
    /// key. Both databases compare its values by their bytes.
    pub(crate) fn select(&self) -> String {
        let key: Vec<_> = self.key.iter().map(|at| &self.columns[*at]).collect();
        format!(
            "SELECT {} FROM {} ORDER BY {}",
            names(&self.columns),
            quoted(&self.name),
            names(key)
        )
    }

    /// Returns the beginning of a statement that inserts rows.
    pub(crate) fn insert(&self) -> String {
        let name = quoted(&self.name);
        format!("INSERT INTO {name} ({})", names(&self.columns))
    }

    /// Returns the statement that finds whether a server has used the table.
    pub(super) fn find_use(&self) -> String {
        let condition = match self.name == NODES {
            true => " WHERE session > 0",
            false => "",
        };
        let name = quoted(&self.name);
        format!("SELECT EXISTS (SELECT 1 FROM {name}{condition})")
    }

    /// Returns the primary key of a row.
    pub(super) fn key_of<'r>(&self, row: &'r Row) -> Vec<&'r Value> {
        self.key.iter().map(|at| &row[*at]).collect()
    }

    /// Returns whether rows of `other` can be inserted into this table.
    fn fits(&self, other: &Self) -> bool {
        let mut columns = self.columns.iter().zip(&other.columns);
        self.columns.len() == other.columns.len()
            && self.key == other.key
            && columns.all(|(one, other)| one.name == other.name && one.form.fits(other.form))
    }
}

/// Returns a name as an SQL identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn names<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    let names: Vec<_> = columns.into_iter().map(|it| quoted(&it.name)).collect();
    names.join(", ")
}

/// Returns the tables with these columns, sorted by their names, without those
/// that are not copied. A reference is a table and the one that it refers to.
pub(crate) fn tables(
    columns: Vec<ColumnRow>,
    references: Vec<(String, String)>,
) -> Result<Vec<Table>> {
    let mut declared: BTreeMap<String, Vec<ColumnRow>> = BTreeMap::new();
    for column in columns {
        declared.entry(column.0.clone()).or_default().push(column);
    }
    declared.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
    let table = |(name, columns): (String, _)| {
        let own = references.iter().filter(|(from, _)| *from == name);
        let references = own.map(|(_, to)| to.clone()).collect();
        table(name, columns, references)
    };
    declared.into_iter().map(table).collect()
}

fn table(
    name: String,
    mut declared: Vec<ColumnRow>,
    references: BTreeSet<String>,
) -> Result<Table> {
    declared.sort();
    let mut key = BTreeMap::new();
    let mut columns = Vec::new();
    for (index, (_, column, kind, position)) in declared.into_iter().enumerate() {
        let form = Form::of(&kind).ok_or_else(|| {
            let why = format!("the type `{kind}` of `{column}` in the table `{name}` is unknown");
            Error::Refused(why)
        })?;
        columns.push(Column { name: column, form });
        if position > 0 {
            key.insert(position, index);
        }
    }
    if key.is_empty() {
        return Err(Error::Refused(format!(
            "the table `{name}` has no primary key"
        )));
    }
    let key = key.into_values().collect();
    Ok(Table {
        name,
        columns,
        key,
        references,
    })
}

/// A table in both databases.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) from: Table,
    pub(super) to: Table,
}

/// Returns the tables of both databases, each after the tables that it refers to.
/// Fails if the databases do not have the same tables.
pub(super) fn pairs(from: Vec<Table>, to: Vec<Table>) -> Result<Vec<Pair>> {
    let by_name = |tables: Vec<Table>| -> BTreeMap<String, Table> {
        let named = tables.into_iter().map(|table| (table.name.clone(), table));
        named.collect()
    };
    let (mut from, to) = (by_name(from), by_name(to));
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let differs = |name: &&&String| match (from.get(**name), to.get(**name)) {
        (Some(from), Some(to)) => !to.fits(from),
        _ => true,
    };
    let differing: Vec<_> = names.iter().filter(differs).map(|it| it.as_str()).collect();
    if !differing.is_empty() {
        return Err(Error::Refused(format!(
            "the two catalogs do not have the same tables ({}); both must have exactly the tables \
             of this version of Elevo",
            differing.join(", ")
        )));
    }
    let pair = |to: Table| {
        Some(Pair {
            from: from.remove(&to.name)?,
            to,
        })
    };
    Ok(in_order(to)?.into_iter().filter_map(pair).collect())
}

/// Returns the tables in an order in which each comes after those that it refers
/// to.
fn in_order(mut left: BTreeMap<String, Table>) -> Result<Vec<Table>> {
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_free = |table: &&Table| !table.references.iter().any(|it| left.contains_key(it));
        let Some(name) = left.values().find(is_free).map(|it| it.name.clone()) else {
            let names: Vec<_> = left.into_keys().collect();
            let names = names.join(", ");
            let why = format!("the foreign keys of these tables form a cycle: {names}");
            return Err(Error::Refused(why));
        };
        ordered.extend(left.remove(&name));
    }
    Ok(ordered)
}
