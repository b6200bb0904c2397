//! Writes log lines to standard error, which the container's runtime collects.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    /// Parses the name of a level. Unknown names mean `info`, because a wrong
    /// setting must not prevent the start of a sandbox.
    pub(crate) fn from_name(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "error" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "debug" | "trace" => Self::Debug,
            _ => Self::Info,
        }
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

pub(crate) fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

pub(crate) fn error(text: Arguments<'_>) {
    write(Level::Error, "error", text);
}

pub(crate) fn warn(text: Arguments<'_>) {
    write(Level::Warn, "warn", text);
}

pub(crate) fn info(text: Arguments<'_>) {
    write(Level::Info, "info", text);
}

pub(crate) fn debug(text: Arguments<'_>) {
    write(Level::Debug, "debug", text);
}

fn write(level: Level, name: &str, text: Arguments<'_>) {
    if level as u8 <= LEVEL.load(Ordering::Relaxed) {
        // There is no other place to report a failure of this write.
        let _ = writeln!(std::io::stderr(), "workspace-agent: {name}: {text}");
    }
}
