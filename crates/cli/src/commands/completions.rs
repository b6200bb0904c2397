use clap::{Args, Command};
use clap_complete::Shell;

use crate::errors::Exit;
use crate::output::Output;

/// Print a script that completes `elevo` commands in a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo completions bash > ~/.local/share/bash-completion/completions/elevo
  elevo completions zsh > ~/.zfunc/_elevo         with fpath+=~/.zfunc in ~/.zshrc
  elevo completions fish > ~/.config/fish/completions/elevo.fish")]
pub(crate) struct Completions {
    /// Shell to complete commands for
    shell: Shell,
}

/// Prints the script for `tree`, the command tree of the program.
pub(crate) fn run(args: &Completions, mut tree: Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree, "elevo", &mut script);
    let mut output = Output::new(false);
    output.bytes(&script)?;
    output.finish()?;
    Ok(Exit::Done)
}
