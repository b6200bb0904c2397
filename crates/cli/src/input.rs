//! Input of the user: files, answers, an editor and the form of arguments.

pub(crate) mod confirm;
pub(crate) mod duration;
pub(crate) mod editor;
pub(crate) mod file;
pub(crate) mod secret;
pub(crate) mod terminal;
pub(crate) mod variable;
