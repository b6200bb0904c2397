//! `elevo man`: writes manual pages.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;

use crate::errors::{Exit, FileProblem};
use crate::output::Output;

/// Print the manual page, or write a page for each command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo man | man -l -
  elevo man -o /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Directory for a page of each command; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Writes the pages of `tree`, the command tree of the program.
pub(crate) fn run(args: &Man, mut tree: Command) -> anyhow::Result<Exit> {
    tree.build();
    let Some(directory) = &args.output else {
        let mut output = Output::new(false);
        output.bytes(&page(tree)?)?;
        output.finish()?;
        return Ok(Exit::Done);
    };
    let failed = |path: &Path, source| FileProblem::Io {
        action: "write",
        path: path.into(),
        source,
    };
    fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    let mut open = vec![tree];
    while let Some(command) = open.pop() {
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
        open.extend(shown.cloned());
        let name = command.get_display_name().unwrap_or(command.get_name());
        let path = directory.join(format!("{name}.1"));
        fs::write(&path, page(command)?).map_err(|source| failed(&path, source))?;
    }
    Ok(Exit::Done)
}

fn page(command: Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Page::new(command).render(&mut page)?;
    Ok(page)
}
