//! Runs the real `elevo` as a user would: its commands, what they print, how
//! they end.

#![allow(clippy::disallowed_methods, reason = "what is run needs a PATH")]

mod archives;
mod checkout;
mod commands;
mod common;
mod damage;
mod diff;
mod docs;
mod errors;
mod gc;
mod hostile;
mod ignored;
mod inside;
mod removing;
mod terminal;
mod unprivileged;
mod ws;
