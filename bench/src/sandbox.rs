//! `elevo-bench sandbox`: the service in a separate process, compared with the bare container
//! engine on the same socket. Needs root, the engine and image of `scripts/services`, the agent of
//! `scripts/agent`, and the server binary next to this program.

mod alive;
mod commands;
mod create;
mod events;
mod files;
mod hostile;
mod ports;
mod stream;
mod warm;
mod watch;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::peers::Peer;
use crate::report::Report;
use crate::server::Server;
use crate::suite::{self, Measure, Settings};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Run only these measures
    #[arg(long, value_name = "NAME", num_args = 1..,
          value_parser = PossibleValuesParser::new(MEASURES.map(|measure| measure.name)))]
    only: Vec<String>,
}

/// In the order in which they run.
const MEASURES: [Measure<Bench>; 14] = [
    Measure {
        name: "create",
        peers: &[Peer::Docker],
        run: create::run,
    },
    Measure {
        name: "burst",
        peers: &[Peer::Docker],
        run: create::burst,
    },
    Measure {
        name: "warm",
        peers: &[Peer::Docker],
        run: warm::run,
    },
    Measure {
        name: "events",
        peers: &[],
        run: events::run,
    },
    Measure {
        name: "commands",
        peers: &[Peer::Docker],
        run: commands::run,
    },
    Measure {
        name: "stream",
        peers: &[],
        run: stream::run,
    },
    Measure {
        name: "files",
        peers: &[],
        run: files::run,
    },
    Measure {
        name: "ports",
        peers: &[],
        run: ports::run,
    },
    Measure {
        name: "watch",
        peers: &[],
        run: watch::run,
    },
    Measure {
        name: "alive",
        peers: &[],
        run: alive::run,
    },
    Measure {
        name: "clients",
        peers: &[],
        run: hostile::clients,
    },
    Measure {
        name: "differences",
        peers: &[],
        run: hostile::differences,
    },
    Measure {
        name: "output",
        peers: &[],
        run: hostile::output,
    },
    Measure {
        name: "hostile",
        peers: &[],
        run: hostile::sandbox,
    },
];

/// A server, and the extent of the measures.
pub(crate) struct Bench {
    server: Server,
    runtime: tokio::runtime::Runtime,
    quick: bool,
    scratch: PathBuf,
}

impl Bench {
    /// Returns `full`, or a tenth of it in quick mode.
    fn count(&self, full: usize) -> usize {
        if self.quick { full / 10 } else { full }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Report> {
    let quick = arguments.settings.quick;
    let bench = |scratch: &Path| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let server = runtime.block_on(Server::with_template(scratch, &[]))?;
        Ok(Bench {
            server,
            runtime,
            quick,
            scratch: scratch.into(),
        })
    };
    suite::run(&MEASURES, &arguments.only, &arguments.settings, bench)
}
