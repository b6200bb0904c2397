//! `elevo help`: prints the help of a command.

use clap::error::ErrorKind;
use clap::{Args, Command};

use crate::errors::Exit;
use crate::output::Output;

/// Print the help of a command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo help
  elevo help ws create          the same as `elevo ws create --help`")]
pub(crate) struct Help {
    /// Words of the command
    command: Vec<String>,
}

/// Prints the help of a command in `tree`, the command tree of the program.
pub(crate) fn run(args: &Help, mut tree: Command) -> anyhow::Result<Exit> {
    tree.build();
    let mut command = tree;
    for word in &args.command {
        let name = format!("{} {word}", command.get_bin_name().unwrap_or("elevo"));
        let Some(found) = command.find_subcommand(word).cloned() else {
            let message = format!("there is no command `{name}`");
            let error = command.error(ErrorKind::InvalidSubcommand, message);
            // If standard error is closed, there is nowhere to report it.
            let _ = error.print();
            return Ok(Exit::Usage);
        };
        command = found;
    }
    let help = command.render_long_help();
    let mut output = Output::new(false);
    match output.has_colour() {
        true => output.bytes(help.ansi().to_string().as_bytes())?,
        false => output.bytes(help.to_string().as_bytes())?,
    }
    output.finish()?;
    Ok(Exit::Done)
}
