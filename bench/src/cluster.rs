//! `elevo-bench cluster`: several processes on one catalog in PostgreSQL, and on one store in PostgreSQL
//! and S3. Needs the servers of `scripts/services up postgres s3`; a measure that kills servers starts its
//! own.
//!
//! `--only catalog` and `--only store` are all measures of one of them.

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
mod servers;
mod store;
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
    /// Run only these measures; `catalog` and `store` are all of one kind
    #[arg(long, value_name = "NAME", num_args = 1..,
          value_parser = PossibleValuesParser::new(
              MEASURES.map(|measure| measure.name).into_iter().chain([CATALOG, STORE])))]
    only: Vec<String>,
}

/// The name of all measures of the catalog.
const CATALOG: &str = "catalog";
/// The name of all measures of the store, and the beginning of their names.
const STORE: &str = "store";

/// In the order in which they run.
const MEASURES: [Measure<Bench>; 14] = [
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
    Measure {
        name: "store-commit",
        peers: &[],
        run: store::commit::run,
    },
    Measure {
        name: "store-committers",
        peers: &[],
        run: store::committers::run,
    },
    Measure {
        name: "store-large",
        peers: &[],
        run: store::large::run,
    },
    Measure {
        name: "store-import",
        peers: &[],
        run: store::large::run_import,
    },
    Measure {
        name: "store-read",
        peers: &[],
        run: store::read::run,
    },
    Measure {
        name: "store-open",
        peers: &[],
        run: store::read::run_open,
    },
    Measure {
        name: "store-index",
        peers: &[],
        run: store::index::run,
    },
    Measure {
        name: "store-collection",
        peers: &[],
        run: store::collection::run,
    },
    Measure {
        name: "servers",
        peers: &[],
        run: servers::run,
    },
];

/// The measures that the arguments name.
fn chosen(only: &[String]) -> Vec<String> {
    let is_chosen = |measure: &&Measure<Bench>| {
        let group = match measure.name.starts_with(STORE) || measure.name == "servers" {
            true => STORE,
            false => CATALOG,
        };
        only.iter()
            .any(|name| name == measure.name || name == group)
    };
    let names = MEASURES
        .iter()
        .filter(is_chosen)
        .map(|measure| measure.name);
    names.map(str::to_owned).collect()
}

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
    let only = chosen(&arguments.only);
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
    suite::run(&MEASURES, &only, &arguments.settings, bench)
}
