//! The query of a request for a page of a list.

use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::pages::PageQuery;
use crate::failure::{Failure, Result};

/// Default and maximum number of items on a page.
pub(super) type Bounds = (u32, u32);

/// The bounds of most lists.
pub(super) const PAGE: Bounds = (20, 100);

/// The bounds of lists with small items.
pub(super) const LONG_PAGE: Bounds = (100, 1000);

/// Checks the parameters of a page.
pub(super) fn page(
    cursor: Option<String>,
    limit: Option<u32>,
    (default, most): Bounds,
) -> Result<PageQuery> {
    let limit = limit.unwrap_or(default);
    match (1..=most).contains(&limit) {
        true => Ok(PageQuery { cursor, limit }),
        false => Err(Failure::invalid(format!("`limit` must be 1 to {most}"))),
    }
}

/// A page of a list without other parameters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of items; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

impl Page {
    pub(super) fn read(self) -> Result<PageQuery> {
        page(self.cursor, self.limit, PAGE)
    }
}

/// A page of a list of small items, without other parameters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LongPage {
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of items; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl LongPage {
    pub(super) fn read(self) -> Result<PageQuery> {
        page(self.cursor, self.limit, LONG_PAGE)
    }
}
