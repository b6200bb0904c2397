//! The commands without a noun, such as `elevo commit`. They work on the
//! working directory around the current directory and on its store. Each
//! command has its own file.

mod cat;
mod checkout;
mod commit;
mod diff;
mod export;
mod import;
mod init;
mod log;
mod ls;
mod restore;
mod show;
mod status;
mod tag;

use std::path::Path;

use clap::Subcommand;

use crate::errors::Exit;
use crate::global::Global;
use crate::local::session::Session;
use crate::store_command::{StoreCommand, WithGlobal};

/// The commands, each defined in its own file.
#[derive(Debug, Subcommand)]
pub(crate) enum Local {
    Init(WithGlobal<init::Init>),
    Commit(WithGlobal<commit::Commit>),
    Status(WithGlobal<status::Status>),
    Log(WithGlobal<log::Log>),
    Show(WithGlobal<show::Show>),
    Diff(WithGlobal<diff::Diff>),
    Restore(WithGlobal<restore::Restore>),
    Checkout(WithGlobal<checkout::Checkout>),
    Cat(WithGlobal<cat::Cat>),
    Ls(WithGlobal<ls::Ls>),
    Tag(WithGlobal<tag::Tag>),
    Import(WithGlobal<import::Import>),
    Export(WithGlobal<export::Export>),
}

impl StoreCommand for Local {
    fn global(&self) -> &Global {
        match self {
            Self::Init(it) => &it.global,
            Self::Commit(it) => &it.global,
            Self::Status(it) => &it.global,
            Self::Log(it) => &it.global,
            Self::Show(it) => &it.global,
            Self::Diff(it) => &it.global,
            Self::Restore(it) => &it.global,
            Self::Checkout(it) => &it.global,
            Self::Cat(it) => &it.global,
            Self::Ls(it) => &it.global,
            Self::Tag(it) => &it.global,
            Self::Import(it) => &it.global,
            Self::Export(it) => &it.global,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Commit(_) => "commit",
            Self::Status(_) => "status",
            Self::Log(_) => "log",
            Self::Show(_) => "show",
            Self::Diff(_) => "diff",
            Self::Restore(_) => "restore",
            Self::Checkout(_) => "checkout",
            Self::Cat(_) => "cat",
            Self::Ls(_) => "ls",
            Self::Tag(_) => "tag",
            Self::Import(_) => "import",
            Self::Export(_) => "export",
        }
    }

    fn needs_holder(&self) -> bool {
        match self {
            Self::Import(_) | Self::Commit(_) => true,
            Self::Diff(diff) => diff.args.writes(),
            Self::Tag(tag) => tag.args.writes(),
            _ => false,
        }
    }

    fn reads_input(&self) -> bool {
        matches!(self, Self::Import(import) if import.args.is_input())
    }

    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Commit(commit) => commit.args.directory(),
            _ => None,
        }
    }

    fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Log(_) | Self::Show(_) | Self::Diff(_) | Self::Cat(_) | Self::Ls(_)
        )
    }

    fn execute(self, session: &mut Session) -> anyhow::Result<Exit> {
        let done = |()| Exit::Done;
        match self {
            Self::Init(it) => init::run(session, it.args).map(done),
            Self::Commit(it) => commit::run(session, it.args).map(done),
            Self::Status(_) => status::run(session).map(done),
            Self::Log(it) => log::run(session, it.args).map(done),
            Self::Show(it) => show::run(session, it.args),
            Self::Diff(it) => diff::run(session, it.args),
            Self::Restore(it) => restore::run(session, &it.args).map(done),
            Self::Checkout(it) => checkout::run(session, it.args).map(done),
            Self::Cat(it) => cat::run(session, &it.args).map(done),
            Self::Ls(it) => ls::run(session, &it.args).map(done),
            Self::Tag(it) => tag::run(session, it.args).map(done),
            Self::Import(it) => import::run(session, it.args).map(done),
            Self::Export(it) => export::run(session, &it.args).map(done),
        }
    }
}
