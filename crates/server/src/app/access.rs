//! Access to the server: tenants, their keys and agents, the principals of
//! requests, and sealed secrets.

pub(crate) mod here;
pub(crate) mod keys;
pub(crate) mod me;
pub(crate) mod names;
pub(crate) mod presence;
pub(crate) mod principal;
pub(crate) mod principals;
pub(crate) mod secrets;
pub(crate) mod tenants;
pub(crate) mod tickets;
