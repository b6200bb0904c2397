//! A command that runs on a store on this machine: its options, current
//! directory, store and output.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::{DEFAULT_CACHE_BYTES, Repository, Store};
use elevo_objects::{Snapshot, SnapshotId};
use elevo_store_local::{LocalStore, OpenError, Options};

use crate::errors::{DirectoryProblem, Exit, FileProblem, LocalProblem, Protected, Report};
use crate::global::Global;
use crate::input::confirm;
use crate::local::caller::{Caller, HeldStore, Notes, user};
use crate::local::layout::store_in;
use crate::local::revision;
use crate::local::store_location::{Around, StoreLocation, find_location, find_workspace_location};
use crate::output::{Output, OutputError, format};

/// A command that runs on a store.
pub(crate) struct Session {
    pub(crate) global: Global,
    pub(crate) output: Output,
    /// The current directory.
    here: PathBuf,
    /// Name of the command, shown to other processes that find the store busy.
    command: &'static str,
    author: String,
    input: Box<dyn Read + Send>,
    notes: Notes,
    held: Option<Arc<HeldStore>>,
}

/// A store that is open for reading.
pub(crate) struct View {
    pub(crate) repository: Repository,
    here: Option<SnapshotId>,
}

impl View {
    /// Resolves the name of a snapshot.
    pub(crate) fn resolve(&self, text: &str) -> anyhow::Result<(SnapshotId, Snapshot)> {
        revision::resolve(&self.repository, self.here, text)
    }
}

impl Session {
    pub(crate) fn new(global: Global, command: &'static str, caller: Caller) -> Self {
        Self {
            output: Output::to(caller.sink, global.json),
            global,
            here: caller.here,
            command,
            author: caller.author,
            input: caller.input,
            notes: caller.notes,
            held: caller.held,
        }
    }

    /// Default author of snapshots.
    pub(crate) fn author(&self) -> &str {
        &self.author
    }

    /// Takes the caller's standard input; a second call returns an empty one.
    pub(crate) fn take_input(&mut self) -> Box<dyn Read + Send> {
        std::mem::replace(&mut self.input, Box::new(io::empty()))
    }

    /// The open store, if this process is the server that holds it.
    pub(crate) fn held(&self, place: &StoreLocation) -> Option<&Arc<HeldStore>> {
        let held = self.held.as_ref();
        held.filter(|held| held.path == place.store)
    }

    /// Whether progress bars are off.
    pub(crate) fn hides_progress(&self) -> bool {
        self.global.quiet || self.notes.is_elsewhere()
    }

    /// Resolves a directory argument, which must exist.
    pub(crate) fn directory(&self, path: &Path) -> Result<PathBuf, LocalProblem> {
        let path = self.here.join(path);
        match path.canonicalize() {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(path) => Err(DirectoryProblem::NotADirectory(path).into()),
            Err(error) if is_absent(&error) => Err(DirectoryProblem::NotADirectory(path).into()),
            Err(source) => Err(FileProblem::Io {
                action: "find",
                path,
                source,
            }
            .into()),
        }
    }

    /// Resolves a path argument, which need not exist.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        self.here.join(path)
    }

    /// The caller's current directory.
    pub(crate) fn here(&self) -> &Path {
        &self.here
    }

    /// Path of a new store: in the given directory, at `--store`, or in the
    /// current directory. Creates its parent directories.
    ///
    /// Inside a workspace the directory must be given, because a store there is
    /// deleted with the workspace.
    pub(crate) fn new_store(&self, directory: Option<&Path>) -> Result<PathBuf, LocalProblem> {
        let path = match (directory, &self.global.store) {
            (Some(directory), _) => store_in(&self.path(directory)),
            (None, Some(store)) => self.path(store),
            (None, None) => match Around::of(self.here()) {
                Around::Workspace(inside) => return Err(Protected::Inside(inside).into()),
                Around::Working(_) | Around::Nothing => store_in(self.here()),
            },
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| FileProblem::Io {
                action: "create",
                path: parent.into(),
                source,
            })?;
        }
        Ok(path)
    }

    /// Finds the store: the named one, or that of `directory` if it has one, or
    /// the nearest from the current directory upwards.
    pub(crate) fn place(&self, directory: Option<&Path>) -> Result<StoreLocation, LocalProblem> {
        find_location(&self.global, &self.here, directory)
    }

    /// Finds the store for `elevo ws`: like [`Self::place`], but inside a
    /// workspace the store that the workspace belongs to.
    pub(crate) fn workspace_place(&self) -> Result<StoreLocation, LocalProblem> {
        find_workspace_location(&self.global, &self.here)
    }

    /// Finds the store and the working directory for a command on a whole
    /// working directory: the given one, or the one around the current directory.
    pub(crate) fn working_place(
        &self,
        given: Option<&Path>,
    ) -> Result<(StoreLocation, PathBuf), LocalProblem> {
        let Some(given) = given else {
            let place = self.place(None)?;
            let working = place.working()?.to_owned();
            return Ok((place, working));
        };
        let directory = self.directory(given)?;
        match Around::of(&directory) {
            Around::Working(working) if working != directory => {
                Err(DirectoryProblem::InsideWorking { directory, working }.into())
            }
            Around::Workspace(inside) => Err(Protected::Inside(inside).into()),
            _ => Ok((self.place(Some(&directory))?, directory)),
        }
    }

    /// Opens the store for reading, also while another process writes to it.
    pub(crate) fn view(&self) -> anyhow::Result<View> {
        self.view_of(&self.place(None)?)
    }

    /// Like [`Self::view`], for a store that was already found.
    pub(crate) fn view_of(&self, place: &StoreLocation) -> anyhow::Result<View> {
        let repository = match self.held(place) {
            Some(held) => repository(held.store.clone()),
            None => {
                let store = LocalStore::open_read_only(&place.store, &self.options())?;
                repository(Arc::new(store))
            }
        };
        Ok(View {
            repository,
            here: place.here(),
        })
    }

    /// Opens the store itself for reading, without a cache.
    pub(crate) fn read_local(&self, place: &StoreLocation) -> Result<Arc<LocalStore>, OpenError> {
        if let Some(held) = self.held(place) {
            return Ok(held.store.clone());
        }
        let store = LocalStore::open_read_only(&place.store, &self.options())?;
        Ok(Arc::new(store))
    }

    /// Opens a store for writing. Waits for another writer, up to `--wait`.
    pub(crate) fn write(&self, place: &StoreLocation) -> Result<Repository, OpenError> {
        if let Some(held) = self.held(place) {
            return Ok(repository(held.store.clone()));
        }
        let store = LocalStore::open(&place.store, &self.options())?;
        Ok(repository(Arc::new(store)))
    }

    /// The options to open a store with.
    pub(crate) fn options(&self) -> Options {
        let since = format::local(format::now());
        let holder = format!(
            "`elevo {}` (process {} of {}, since {since})",
            self.command,
            std::process::id(),
            user(),
        );
        Options {
            holder,
            wait: Duration::from_secs(self.global.wait),
            ..Options::default()
        }
    }

    /// Number of threads that read and write files.
    pub(crate) fn threads(&self) -> usize {
        let all = std::thread::available_parallelism();
        let threads = self.global.threads.map(Ok).unwrap_or(all);
        threads.map_or(1, usize::from)
    }

    /// Reports one error of several. Returns its exit code.
    pub(crate) fn report(&mut self, error: &anyhow::Error) -> anyhow::Result<Exit> {
        // Earlier output must appear before the error.
        self.output.finish()?;
        let report = Report::new(error);
        self.notes.report(&report, self.global.json);
        Ok(report.exit)
    }

    /// Asks on the terminal. Returns `None` without a terminal.
    pub(crate) fn ask(&self, question: &str) -> io::Result<Option<bool>> {
        match self.global.json || self.notes.is_elsewhere() {
            true => Ok(None),
            false => confirm::ask(question),
        }
    }

    /// Prints a line that confirms what was done, unless the output is quiet.
    pub(crate) fn confirm(&mut self, line: &str) -> Result<(), OutputError> {
        match self.global.quiet {
            true => Ok(()),
            false => self.output.line(line),
        }
    }

    /// Prints a note to the caller, unless the output is quiet or JSON.
    pub(crate) fn note(&self, text: &str) {
        if !self.global.quiet && !self.global.json {
            self.output.flush();
            let style = anstyle::AnsiColor::Cyan.on_default().bold();
            self.notes.line(&format!("{style}note{style:#}: {text}"));
        }
    }
}

fn repository(store: Arc<dyn Store>) -> Repository {
    Repository::new(store, TenantId::LOCAL, DEFAULT_CACHE_BYTES)
}

fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
