//! Everything between a command and a store on this machine: finds the store,
//! opens it, and reads directories and archives into it.

pub(crate) mod ancestors;
pub(crate) mod caller;
pub(crate) mod changed_files;
pub(crate) mod checkout_record;
pub(crate) mod data_directory;
pub(crate) mod layout;
pub(crate) mod merge;
pub(crate) mod read_archive;
pub(crate) mod read_directory;
pub(crate) mod revision;
pub(crate) mod server_lock;
pub(crate) mod server_log;
pub(crate) mod server_run;
pub(crate) mod server_start;
pub(crate) mod server_stop;
pub(crate) mod server_store;
pub(crate) mod session;
#[cfg(target_os = "linux")]
pub(crate) mod snapshot_server;
pub(crate) mod stat_caches;
pub(crate) mod store_location;
pub(crate) mod tag_name;
pub(crate) mod tree_path;
pub(crate) mod wait;
pub(crate) mod working_tree;
pub(crate) mod workspace_places;
pub(crate) mod workspaces;
