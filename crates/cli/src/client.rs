//! Everything between a command and a server: the client of the REST API finds a
//! server, sends requests, and follows output across lost connections.

mod again;
pub(crate) mod call;
pub(crate) mod command;
pub(crate) mod command_input;
pub(crate) mod contexts;
pub(crate) mod diff;
pub(crate) mod error;
pub(crate) mod event_text;
mod events;
pub(crate) mod files;
mod find;
mod follow;
pub(crate) mod health;
mod http;
pub(crate) mod import;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod operator;
pub(crate) mod pages;
pub(crate) mod paths;
pub(crate) mod policy;
pub(crate) mod project_file;
pub(crate) mod project_state;
pub(crate) mod review;
pub(crate) mod review_sides;
pub(crate) mod sandboxes;
pub(crate) mod tar_copy;
mod terminal;
pub(crate) mod trust;
pub(crate) mod webhooks;
pub(crate) mod workspace;

pub(crate) use again::random_name;
pub(crate) use call::{Call, Done, not_removed, run_on_server, run_with_client};
pub(crate) use error::{ClientError, Result};
pub(crate) use events::{Events, decode};
pub(crate) use find::{KeySource, Reach, Where};
pub(crate) use follow::Follow;
pub(crate) use http::Client;
pub(crate) use pages::pages;
pub(crate) use terminal::{Heard, Keys, Terminal};
