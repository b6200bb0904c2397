//! Reads a secret from the terminal without showing it, or from standard input.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// Maximum bytes of a secret.
const LARGEST: usize = 16 << 10;

/// The byte of Ctrl-C.
const CANCEL: u8 = 3;

/// Asks for a secret on the terminal. Without a terminal, reads the first line of
/// standard input. Returns an empty text if the user cancelled.
pub(crate) fn read(question: &str) -> io::Result<String> {
    let mut line = Vec::new();
    if !io::stdin().is_terminal() {
        let stdin = io::stdin().lock();
        BufReader::new(stdin.take(LARGEST as u64)).read_until(b'\n', &mut line)?;
        return Ok(text(&line));
    }
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    write!(terminal, "{question}: ")?;
    let hidden = Hidden::begin(&terminal)?;
    // A terminal returns one line for one read.
    line.resize(LARGEST, 0);
    let read = (&terminal).read(&mut line);
    drop(hidden);
    writeln!(terminal)?;
    line.truncate(read?);
    Ok(match line.contains(&CANCEL) {
        true => String::new(),
        false => text(&line),
    })
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim().to_owned()
}

/// A terminal that does not show its input; shows it again when dropped.
struct Hidden<'a> {
    terminal: &'a std::fs::File,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn begin(terminal: &'a std::fs::File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        // Ctrl-C ends the line instead of the process, which would leave the
        // terminal without echo.
        modes
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ISIG);
        modes.special_codes[SpecialCodeIndex::VEOL] = CANCEL;
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // If this fails, the terminal has gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}
