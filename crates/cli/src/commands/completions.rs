use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::errors::Exit;
use crate::output::Output;

/// Print a script that completes `elevo` commands in a shell
#[derive(Debug, Args)]
#[command(after_help = "\
The script asks `elevo` for completions: commands, options, and the names and ids
of projects, sandboxes, workspaces, tags and others.

Examples:
  elevo completions bash > ~/.local/share/bash-completion/completions/elevo
  elevo completions zsh > ~/.zfunc/_elevo         with fpath+=~/.zfunc in ~/.zshrc
  elevo completions fish > ~/.config/fish/completions/elevo.fish")]
pub(crate) struct Completions {
    /// Shell to complete commands for
    shell: Shell,
}

/// Prints the script, which runs `elevo` with `variable` set.
pub(crate) fn run(args: &Completions, variable: &str) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let name = args.shell.to_string();
    if let Some(shell) = Shells::builtins().completer(&name) {
        shell.write_registration(variable, "elevo", "elevo", "elevo", &mut script)?;
    }
    let mut output = Output::new(false);
    output.bytes(&script)?;
    output.finish()?;
    Ok(Exit::Done)
}
