//! The machine under the services: clock, listeners, outgoing requests, logs,
//! metrics, and the files of the data directory. Knows neither `app` nor `http`.

pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod catalog_copy;
pub(crate) mod catalog_place;
pub(crate) mod clock;
pub(crate) mod descriptors;
pub(crate) mod engine_sight;
pub(crate) mod files;
pub(crate) mod installation;
pub(crate) mod installed;
pub(crate) mod listen;
pub(crate) mod metrics;
pub(crate) mod outgoing;
pub(crate) mod owners;
pub(crate) mod privacy;
pub(crate) mod room;
pub(crate) mod share;
pub(crate) mod signals;
pub(crate) mod signing;
pub(crate) mod store_copy;
pub(crate) mod store_place;
pub(crate) mod trace;
pub(crate) mod vault;
pub(crate) mod watch;
