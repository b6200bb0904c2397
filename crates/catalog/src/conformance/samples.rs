//! Sample records, and calls that must succeed.

mod landings;
mod projects;
mod tenants;

pub(crate) use self::landings::*;
pub(crate) use self::projects::*;
pub(crate) use self::tenants::*;
