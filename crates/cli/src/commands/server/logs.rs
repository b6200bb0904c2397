use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use crate::client::operator::OperatorOptions;
use crate::errors::{Exit, FileProblem, ProcessProblem};
use crate::local::data_directory::DataDirectory;
use crate::output::Output;
use crate::output::format::{first_line, harmless};

/// Time between two looks at a log that does not grow.
const PAUSE: Duration = Duration::from_millis(200);

/// Print the log of the server.
#[derive(Debug, Args)]
#[command(after_help = "\
The log is in DIR/server.log, and older lines in DIR/server.log.1. With --json
the lines are printed as they are in the file. The server need not run.

Examples:
  elevo server logs
  elevo server logs -f
  elevo server logs -n 1000 --json | jq 'select(.level == \"ERROR\")'")]
pub(super) struct Logs {
    /// Maximum number of lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// Wait for new lines until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

pub(super) fn run(at: &OperatorOptions, args: &Logs) -> anyhow::Result<Exit> {
    let data = DataDirectory::new(at.data.clone());
    let path = data.log();
    let failed = |source| FileProblem::Io {
        action: "read",
        path: path.clone(),
        source,
    };
    let mut log = match LogFile::open(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ProcessProblem::NoLog(data.path().into()).into());
        }
        Err(source) => return Err(failed(source).into()),
    };
    let mut output = Output::new(at.json);
    let mut last = VecDeque::new();
    if let Ok(mut before) = LogFile::open(&data.previous_log()) {
        keep_last(&mut last, before.lines().map_err(failed)?, args.limit);
    }
    keep_last(&mut last, log.lines().map_err(failed)?, args.limit);
    for line in last {
        print(&mut output, &line)?;
    }
    output.finish()?;
    if !args.follow {
        return Ok(Exit::Done);
    }
    loop {
        // Reads the rest of a rotated file before the new one.
        let is_rotated = log.is_rotated(&path);
        let lines = log.lines().map_err(failed)?;
        if is_rotated && let Ok(next) = LogFile::open(&path) {
            log = next;
        } else if lines.is_empty() {
            thread::sleep(PAUSE);
        }
        for line in lines {
            print(&mut output, &line)?;
        }
        output.finish()?;
    }
}

fn keep_last(last: &mut VecDeque<String>, lines: Vec<String>, limit: usize) {
    last.extend(lines);
    last.drain(..last.len().saturating_sub(limit));
}

/// A log file that is read as it grows.
struct LogFile {
    file: File,
    inode: u64,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        let rest = Vec::new();
        Ok(Self { file, inode, rest })
    }

    /// Whether the path names another file now.
    fn is_rotated(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|meta| meta.ino() != self.inode)
    }

    /// Reads the complete lines that were added since the last call.
    fn lines(&mut self) -> io::Result<Vec<String>> {
        self.file.read_to_end(&mut self.rest)?;
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let end = end.map_or(0, |at| at + 1);
        let complete: Vec<u8> = self.rest.drain(..end).collect();
        let text = String::from_utf8_lossy(&complete);
        Ok(text.lines().map(str::to_owned).collect())
    }
}

fn print(output: &mut Output, line: &str) -> anyhow::Result<()> {
    let fields = serde_json::from_str::<Map<String, Value>>(line);
    match fields {
        Ok(fields) if !output.is_json() => Ok(output.line(readable(&fields))?),
        _ => Ok(output.line(first_line(line).as_bytes())?),
    }
}

/// Formats a line: its time, level and message, and then the other fields.
fn readable(fields: &Map<String, Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => harmless(text).into_owned(),
        other => other.to_string(),
    };
    let named = |name: &str| fields.get(name).map(text).unwrap_or_default();
    let time = named("timestamp");
    let mut line = format!("{time} {:<5} {}", named("level"), named("message"));
    let shown = ["timestamp", "level", "message", "target"];
    for (name, value) in fields
        .iter()
        .filter(|(name, _)| !shown.contains(&name.as_str()))
    {
        line += &format!(" {name}={}", text(value));
    }
    line
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_shows_its_fields_after_the_message() {
        let line = r#"{"timestamp":"2026-11-17T10:00:00Z","level":"INFO","api":"127.0.0.1:1","message":"listening","target":"elevo"}"#;
        let fields = serde_json::from_str(line).unwrap();
        let expected = "2026-11-17T10:00:00Z INFO  listening api=127.0.0.1:1";
        assert_eq!(readable(&fields), expected);
    }

    #[test]
    fn a_growing_log_is_read_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.log");
        let mut file = File::create(&path).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        assert!(log.lines().unwrap().is_empty());
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(log.lines().unwrap(), ["one"]);
        file.write_all(b"o\n").unwrap();
        assert_eq!(log.lines().unwrap(), ["two"]);
        assert!(!log.is_rotated(&path));
        fs::rename(&path, directory.path().join("server.log.1")).unwrap();
        assert!(!log.is_rotated(&path));
        fs::write(&path, "three\n").unwrap();
        assert!(log.is_rotated(&path));
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let lines = |range: std::ops::Range<u8>| range.map(|n| n.to_string()).collect();
        let mut last = VecDeque::new();
        keep_last(&mut last, lines(0..5), 3);
        keep_last(&mut last, lines(5..6), 3);
        assert_eq!(last, ["3", "4", "5"]);
    }
}
