//! `elevo-bench cluster`: several processes on one catalog in PostgreSQL. Needs the servers of
//! `scripts/services up postgres`; a measure that kills servers starts its own.
//!
//! The measures together are `--only catalog`.

mod events;
mod failover;
mod fixture;
mod followers;
mod heads;
mod history;
mod http;
mod land;
mod lander;
mod pair;
mod worker;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::runtime::{Builder, Runtime};

pub(crate) use self::worker::run as work;
use crate::merge;
use crate::report::Report;
use crate::suite::{self, Measure, Settings};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Run only these measures; `catalog` is all of them
    #[arg(long, value_name = "NAME", num_args = 1..,
          value_parser = PossibleValuesParser::new(
              MEASURES.map(|measure| measure.name).into_iter().chain([CATALOG])))]
    only: Vec<String>,
}

/// The name of all measures of the catalog.
const CATALOG: &str = "catalog";

/// In the order in which they run.
const MEASURES: [Measure<Bench>; 5] = [
    Measure {
        name: "land",
        peers: &[],
        run: land::run,
    },
    Measure {
        name: "heads",
        peers: &[],
        run: heads::run,
    },
    Measure {
        name: "events",
        peers: &[],
        run: events::run,
    },
    Measure {
        name: "failover",
        peers: &[],
        run: failover::run,
    },
    Measure {
        name: "http",
        peers: &[],
        run: http::run,
    },
];

/// The context of all measures.
pub(crate) struct Bench {
    runtime: Runtime,
    scratch: PathBuf,
    quick: bool,
}

impl Bench {
    /// Returns `full`, or a tenth of it in quick mode.
    const fn count(&self, full: usize) -> usize {
        if self.quick { full / 10 } else { full }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Report> {
    let quick = arguments.settings.quick;
    let only: &[String] = match arguments.only.iter().any(|name| name == CATALOG) {
        true => &[],
        false => &arguments.only,
    };
    if only.is_empty() || only.iter().any(|name| name == "http") {
        merge::enter_mounts()?;
    }
    let bench = |scratch: &Path| {
        Ok(Bench {
            runtime: Builder::new_multi_thread().enable_all().build()?,
            scratch: scratch.to_owned(),
            quick,
        })
    };
    suite::run(&MEASURES, only, &arguments.settings, bench)
}
