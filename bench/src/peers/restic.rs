//! restic with its defaults, and all its data in one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::command::{clean_command, time_to_run};

/// A restic repository.
#[derive(Debug)]
pub(crate) struct Restic {
    directory: PathBuf,
}

impl Restic {
    /// Creates an empty repository in `directory`.
    pub(crate) fn init(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let restic = Self {
            directory: directory.to_owned(),
        };
        time_to_run(restic.command().args(["init", "--quiet"]))?;
        Ok(restic)
    }

    /// Times `restic backup`.
    pub(crate) fn time_to_back_up(&self, tree: &Path) -> Result<f64> {
        let mut command = self.command();
        time_to_run(command.current_dir(tree).args(["backup", "--quiet", "."]))
    }

    fn command(&self) -> Command {
        let mut command = clean_command("restic");
        command
            .env("HOME", &self.directory)
            .env("RESTIC_REPOSITORY", self.directory.join("repository"))
            .env("RESTIC_CACHE_DIR", self.directory.join("cache"))
            .env("RESTIC_PASSWORD", "bench");
        command
    }
}
