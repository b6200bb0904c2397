//! Reads a tar archive into the store.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use clap::Args;
use elevo_api::parse_limit;
use elevo_archive::{ImportOptions, Limits, Received};
use elevo_engine::{Progress, Repository, StateTree};

use crate::errors::FileProblem;
use crate::local::session::Session;
use crate::output::progress::{self, Watch};
use crate::output::saved_snapshot::describe_loss;

/// Options of an import that are only for a tar archive.
#[derive(Debug, Args)]
pub(crate) struct TarOptions {
    /// Import the archive as a layer of an image on top of this snapshot
    #[arg(long, value_name = "REV")]
    pub(crate) layer_on: Option<String>,

    /// Maximum total size of the files in an archive; by default 1T
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    max_size: Option<u64>,

    /// Maximum number of files, directories and links in an archive; by default
    /// 10,000,000
    #[arg(long, value_name = "N")]
    max_entries: Option<u64>,
}

impl TarOptions {
    /// Whether any of the options was given.
    pub(crate) fn is_given(&self) -> bool {
        self.layer_on.is_some() || self.max_size.is_some() || self.max_entries.is_some()
    }

    fn limits(&self) -> Limits {
        Limits {
            bytes: self.max_size.unwrap_or(1 << 40),
            entries: self.max_entries.unwrap_or(10_000_000),
            ..Limits::LARGEST
        }
    }

    /// Reads the archive `from` into the store.
    pub(crate) fn read(
        &self,
        session: &mut Session,
        repository: &Repository,
        from: &Path,
        base: Option<StateTree>,
    ) -> anyhow::Result<Received> {
        let input: Box<dyn Read + Send> = match is_input(from) {
            true => session.take_input(),
            false => {
                let path = session.path(from);
                let file = File::open(&path).map_err(|source| FileProblem::Io {
                    action: "read",
                    path,
                    source,
                })?;
                Box::new(file)
            }
        };
        let options = ImportOptions {
            limits: self.limits(),
            base,
            threads: session.threads(),
        };
        let progress = Progress::new();
        let watch = Watch {
            doing: "reading",
            things: "entries",
            total: None,
            counts: || (progress.entries(), progress.bytes()),
        };
        let received = progress::watch(session.hides_progress(), watch, || {
            elevo_archive::import(repository, input, &options, &progress)
        });
        let received = received.with_context(|| match is_input(from) {
            true => "cannot import standard input".to_owned(),
            false => format!("cannot import {}", from.display()),
        })?;
        for loss in &received.losses {
            session.note(&describe_loss(loss));
        }
        Ok(received)
    }
}

/// Whether an argument stands for standard input.
pub(crate) fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}
