//! Pages of lists: the requested page, and the cursors of pages.
//!
//! A cursor is text that only the server reads. It names the last item of a
//! page, so it contains no path that is hidden from the principal.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use elevo_catalog::Position;
use elevo_core::Timestamp;

use crate::failure::{Failure, Result};

/// The cursor and the size of a requested page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageQuery {
    pub(crate) cursor: Option<String>,
    pub(crate) limit: u32,
}

impl PageQuery {
    /// Parses a cursor that [`next`] wrote.
    pub(crate) fn position(&self) -> Result<Option<Position>> {
        self.parse(|text| {
            let (created, id) = text.split_once('_')?;
            let micros: i64 = created.parse().ok()?;
            let nanos = u32::try_from(micros.rem_euclid(1_000_000)).ok()? * 1000;
            Some(Position {
                created: Timestamp::new(micros.div_euclid(1_000_000), nanos)?,
                id: id.to_owned(),
            })
        })
    }

    /// Parses a cursor that is a number.
    pub(crate) fn number(&self) -> Result<Option<u64>> {
        self.parse(|text| text.parse().ok())
    }

    /// Parses a cursor that [`of_bytes`] wrote.
    pub(crate) fn bytes(&self) -> Result<Option<Vec<u8>>> {
        self.parse(|text| URL_SAFE_NO_PAD.decode(text).ok())
    }

    /// Parses the cursor.
    pub(crate) fn parse<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = &self.cursor else {
            return Ok(None);
        };
        read(text).map(Some).ok_or_else(not_a_cursor)
    }

    /// Returns the requested page of a list that is sorted by `key`, and the key
    /// of its last item if there are more.
    pub(crate) fn cut<T, K: Ord>(
        &self,
        items: impl IntoIterator<Item = T>,
        after: Option<&K>,
        key: impl Fn(&T) -> K,
    ) -> (Vec<T>, Option<K>) {
        let mut rest = items
            .into_iter()
            .skip_while(|item| after.is_some_and(|after| key(item) <= *after));
        let page: Vec<T> = rest.by_ref().take(self.limit as usize).collect();
        let next = match rest.next() {
            Some(_) => page.last().map(key),
            None => None,
        };
        (page, next)
    }

    /// Returns the requested page of a list that is sorted by position, and the
    /// cursor of the next page.
    pub(crate) fn cut_by_position<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        position: impl Fn(&T) -> Position,
    ) -> Result<(Vec<T>, Option<String>)> {
        let after = self.position()?.map(|at| (at.created, at.id));
        let (page, next) = self.cut(items, after.as_ref(), |item| {
            let Position { created, id } = position(item);
            (created, id)
        });
        let next = next.map(|(created, id)| of_position(&Position { created, id }));
        Ok((page, next))
    }
}

pub(crate) fn not_a_cursor() -> Failure {
    Failure::invalid("`cursor` is not a valid cursor")
        .remediation("Send `next` of the previous page, or leave `cursor` out.")
}

/// Returns the cursor of a position in a list.
pub(crate) fn of_position(position: &Position) -> String {
    let Position { created, id } = position;
    let micros = created.seconds() * 1_000_000 + i64::from(created.nanos() / 1000);
    format!("{micros}_{id}")
}

/// Returns the cursor of a name or path, which need not be UTF-8.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the cursor of the next page, if there may be one.
pub(crate) fn next<T>(
    items: &[T],
    limit: u32,
    position: impl Fn(&T) -> Position,
) -> Option<String> {
    let last = items.last().filter(|_| items.len() >= limit as usize)?;
    Some(of_position(&position(last)))
}
