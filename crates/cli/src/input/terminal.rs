//! Checks that a person is at the terminal.

use std::io::{self, IsTerminal};

use crate::errors::SandboxProblem;

/// Returns an error unless standard input and output are a terminal.
pub(crate) fn need_terminal() -> Result<(), SandboxProblem> {
    match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => Ok(()),
        false => Err(SandboxProblem::NoTerminal),
    }
}
