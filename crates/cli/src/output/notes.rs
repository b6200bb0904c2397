//! Notes on standard error, and lines that describe a resource.

use std::io::Write;

use crate::output::format::first_line;
use crate::output::{Output, OutputError, STRONG};

/// Prints a note to standard error.
pub(crate) fn print_note(text: &str) {
    let style = anstyle::AnsiColor::Cyan.on_default().bold();
    let mut out = anstream::stderr().lock();
    // If standard error is closed, there is nowhere to report it.
    let _ = writeln!(out, "{style}note{style:#}: {text}");
}

/// Prints a line of a description: a name and a value.
pub(crate) fn field(output: &mut Output, name: &str, value: &str) -> Result<(), OutputError> {
    let name = output.styled(STRONG, format!("{name:<11}"));
    let value = first_line(value);
    output.line([&name, value.as_bytes()].concat())
}
