//! Turns errors of the libraries and of the command line into the form that a
//! user sees: a message, a name, an exit code and advice. No other module does
//! this.
//!
//! Each area has an enum, and one `match` over it that gives the name, the exit
//! code, the details and the advice of every variant. The matches have no
//! wildcard: a new variant does not compile until it has all of them.

mod api;
mod client;
mod context;
mod demo;
mod described;
mod directory;
mod exit;
mod file;
mod library;
mod local;
mod name;
mod process;
mod project;
mod protected;
mod report;
mod sandbox;
mod server;
mod server_data;
mod snapshot;
mod store;
mod tag;
mod workspace;

pub(crate) use context::ContextProblem;
pub(crate) use demo::DemoProblem;
pub(crate) use directory::DirectoryProblem;
pub(crate) use exit::Exit;
pub(crate) use file::FileProblem;
pub(crate) use local::LocalProblem;
pub(crate) use name::NameProblem;
pub(crate) use process::ProcessProblem;
pub(crate) use project::ProjectProblem;
pub(crate) use protected::Protected;
pub(crate) use report::Report;
pub(crate) use sandbox::SandboxProblem;
pub(crate) use server::ServerProblem;
pub(crate) use snapshot::SnapshotProblem;
pub(crate) use store::StoreProblem;
pub(crate) use tag::TagProblem;
pub(crate) use workspace::WorkspaceProblem;

#[cfg(test)]
mod tests;
