//! Access: tenants, agents, keys, principals and secrets.

pub(crate) mod keys;
pub(crate) mod presence;
pub(crate) mod principal;
pub(crate) mod principals;
pub(crate) mod secrets;
pub(crate) mod tenants;
