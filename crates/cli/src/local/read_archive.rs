//! Reads a tar archive into the store.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use elevo_api::parse_limit;
use elevo_archive::{ImportOptions, Limits, Received};
use elevo_engine::{Progress, Repository, StateTree};

use crate::errors::FileProblem;
use crate::local::session::Session;
use crate::output::progress::{self, Watch};
use crate::output::saved_snapshot::describe_loss;

/// A tar archive, and the limits for it.
#[derive(Debug, Args)]
pub(crate) struct TarOptions {
    /// Import a tar archive, plain or compressed with gzip or zstd; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "directory")]
    pub(crate) tar: Option<PathBuf>,

    /// Import the archive as a layer of an image on top of this snapshot
    #[arg(long, value_name = "REV", requires = "tar")]
    pub(crate) layer_on: Option<String>,

    /// Maximum total size of the files, for example 20G
    #[arg(long, value_name = "SIZE", value_parser = parse_limit, requires = "tar", default_value = "1T")]
    max_size: u64,

    /// Maximum number of files, directories and links
    #[arg(long, value_name = "N", requires = "tar", default_value_t = 10_000_000)]
    max_entries: u64,
}

impl TarOptions {
    /// Whether the archive is read from standard input.
    pub(crate) fn is_input(&self) -> bool {
        self.tar.as_deref().is_some_and(is_input)
    }

    fn limits(&self) -> Limits {
        Limits {
            bytes: self.max_size,
            entries: self.max_entries,
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

fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}
