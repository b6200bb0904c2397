//! The registry of workspaces, shared between processes and durable: a log of
//! one JSON line for each change, synced before the change takes effect.
//! Readers and writers hold the lock file.

mod format;
mod fuzzing;
mod pins;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record::{Record, RecordJson};
use elevo_core::WorkspaceId;

use format::{FORMAT, Rejected};

pub use format::check_format;
pub use fuzzing::read_any_registry;
pub(crate) use pins::Pins;

/// The log is rewritten when the registry is opened, if it has at least this
/// many more lines than workspaces.
const SPARE_LINES: usize = 1000;

/// The registry in a directory.
#[derive(Debug)]
pub(crate) struct Registry {
    log: PathBuf,
    lock: File,
    state: Mutex<LogState>,
    /// The refs of the store that keep what the records need, if it has some.
    pins: Option<Pins>,
}

/// The state of the registry according to the part of the log that has been
/// read.
#[derive(Debug, Default)]
struct LogState {
    records: BTreeMap<WorkspaceId, Record>,
    /// The inode of the log, to detect that another process has rewritten it.
    inode: u64,
    /// The position up to which the log has been read.
    end: u64,
    lines: usize,
}

/// One change.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LogLine {
    Set(Vec<RecordJson>),
    Remove(String),
    /// Version of the format. Only later versions write it.
    Format(u32),
}

impl LogLine {
    fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("plain data"));
        text.push(b'\n');
        text
    }
}

impl LogState {
    /// Applies one line of the log.
    fn apply(&mut self, line: &[u8]) -> std::result::Result<(), Rejected> {
        match serde_json::from_slice(line).map_err(|_| Rejected::Damaged)? {
            LogLine::Set(written) => {
                let records = written.into_iter().map(RecordJson::parse);
                let records = records.collect::<Option<Vec<_>>>();
                for record in records.ok_or(Rejected::Damaged)? {
                    self.records.insert(record.id.clone(), record);
                }
            }
            LogLine::Remove(id) => {
                let id: WorkspaceId = id.parse().map_err(|_| Rejected::Damaged)?;
                self.records.remove(&id);
            }
            LogLine::Format(FORMAT) => {}
            LogLine::Format(found) => return Err(Rejected::Newer(found)),
        }
        Ok(())
    }
}

/// The registry, locked.
pub(crate) struct LockedRegistry<'a> {
    registry: &'a Registry,
    log: File,
    // Dropped before `state`: the threads of this process share the lock file,
    // so it is unlocked before another thread gets `state`.
    _held: Unlock<'a>,
    state: MutexGuard<'a, LogState>,
}

impl Registry {
    /// Opens or creates the registry in `directory`. Fails if its log is
    /// missing while `live` has entries: they would be mistaken for
    /// half-created workspaces and deleted.
    pub(crate) fn open(directory: &Path, live: &Path) -> Result<Self> {
        let failed = Error::io("open", directory);
        let open = || {
            fs::create_dir_all(directory)?;
            let lock = directory.join("lock");
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).open(lock)
        };
        let registry = Self {
            log: directory.join("log"),
            lock: open().map_err(failed)?,
            state: Mutex::default(),
            pins: None,
        };
        let mut locked = registry.lock_file(MissingLog::Create)?;
        if locked.state.lines == 0 {
            if has_entries(live) {
                return Err(Error::NoRegistry(registry.log.clone()));
            }
            // From now on an empty log means that it was lost.
            locked.append(&LogLine::Set(Vec::new()))?;
        }
        locked.compact()?;
        Ok(registry)
    }

    /// Keeps what the records need by refs of the store from now on.
    pub(crate) fn pin(&mut self, pins: Pins) -> Result<()> {
        pins.reconcile(self.lock()?.records())?;
        self.pins = Some(pins);
        Ok(())
    }

    /// Waits for other processes and threads, and reads their changes. Fails if
    /// the log has been lost.
    pub(crate) fn lock(&self) -> Result<LockedRegistry<'_>> {
        let locked = self.lock_file(MissingLog::Reject)?;
        match locked.state.lines {
            0 => Err(Error::NoRegistry(self.log.clone())),
            _ => Ok(locked),
        }
    }

    fn lock_file(&self, missing: MissingLog) -> Result<LockedRegistry<'_>> {
        let state = self.state.lock();
        self.lock.lock().map_err(Error::io("lock", &self.log))?;
        let held = Unlock(&self.lock);
        let mut options = OpenOptions::new();
        let opened = options
            .read(true)
            .append(true)
            .create(missing == MissingLog::Create)
            .open(&self.log);
        let opened = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoRegistry(self.log.clone()),
            _ => Error::io("open", &self.log)(error),
        });
        let locked = LockedRegistry {
            log: opened?,
            registry: self,
            _held: held,
            state,
        };
        locked.catch_up()
    }
}

/// The treatment of a log that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingLog {
    Create,
    Reject,
}

pub(crate) fn has_entries(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

/// Unlocks the lock file when dropped.
struct Unlock<'a>(&'a File);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        // Unlocking a lock that is held cannot fail.
        let _ = self.0.unlock();
    }
}

impl LockedRegistry<'_> {
    pub(crate) fn records(&self) -> &BTreeMap<WorkspaceId, Record> {
        &self.state.records
    }

    pub(crate) fn get(&self, id: &WorkspaceId) -> Result<Record> {
        let record = self.records().get(id).cloned();
        record.ok_or_else(|| Error::NotFound(id.clone()))
    }

    /// Sets a record. Durable when this returns.
    pub(crate) fn set(&mut self, record: Record) -> Result<()> {
        self.set_all(vec![record])
    }

    /// Sets all records or none. Durable when this returns.
    pub(crate) fn set_all(&mut self, records: Vec<Record>) -> Result<()> {
        let pins = self.registry.pins.as_ref();
        if let Some(pins) = pins {
            pins.require(records.iter())?;
        }
        self.append(&LogLine::Set(
            records.iter().map(RecordJson::from).collect(),
        ))?;
        if let Some(pins) = pins {
            pins.note_written(&records);
        }
        let records = records
            .into_iter()
            .map(|record| (record.id.clone(), record));
        self.state.records.extend(records);
        Ok(())
    }

    /// Removes a record. Durable when this returns.
    pub(crate) fn remove(&mut self, id: &WorkspaceId) -> Result<()> {
        self.append(&LogLine::Remove(id.to_string()))?;
        self.state.records.remove(id);
        if let Some(pins) = &self.registry.pins {
            pins.release(id);
        }
        Ok(())
    }

    fn append(&mut self, line: &LogLine) -> Result<()> {
        let text = line.text();
        let written = self
            .log
            .write_all(&text)
            .and_then(|()| self.log.sync_data());
        if let Err(source) = written {
            // A partial line must not become the start of the next.
            let _ = self.log.set_len(self.state.end);
            return Err(Error::io("write to", &self.registry.log)(source));
        }
        self.state.end += text.len() as u64;
        self.state.lines += 1;
        Ok(())
    }

    /// Reads the lines that other processes have appended.
    fn catch_up(mut self) -> Result<Self> {
        let failed = Error::io("read", &self.registry.log);
        let text = self.unread().map_err(failed)?;
        // An incomplete line is from a writer that was killed before its change
        // took effect.
        let whole = text.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |end| end + 1);
        for line in text[..whole].split_inclusive(|byte| *byte == b'\n') {
            self.state.lines += 1;
            let applied = self.state.apply(line);
            applied.map_err(|rejected| rejected.error(&self.registry.log, self.state.lines))?;
            self.state.end += line.len() as u64;
        }
        if whole < text.len() {
            let failed = Error::io("write to", &self.registry.log);
            self.log.set_len(self.state.end).map_err(failed)?;
        }
        Ok(self)
    }

    /// Returns the part of the log that has not been read.
    fn unread(&mut self) -> io::Result<Vec<u8>> {
        let stat = self.log.metadata()?;
        if stat.ino() != self.state.inode || stat.len() < self.state.end {
            *self.state = LogState {
                inode: stat.ino(),
                ..LogState::default()
            };
        }
        let mut text = Vec::new();
        if stat.len() > self.state.end {
            self.log.seek(SeekFrom::Start(self.state.end))?;
            self.log.read_to_end(&mut text)?;
        }
        Ok(text)
    }

    /// Rewrites the log if it has at least [`SPARE_LINES`] more lines than
    /// workspaces.
    fn compact(mut self) -> Result<()> {
        if self.state.lines < self.state.records.len() + SPARE_LINES {
            return Ok(());
        }
        let log = &self.registry.log;
        let new = log.with_extension("new");
        let mut text = LogLine::Set(Vec::new()).text();
        for record in self.state.records.values() {
            text.extend(LogLine::Set(vec![RecordJson::from(record)]).text());
        }
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, log)?;
            let directory = log.parent().unwrap_or(Path::new("."));
            File::open(directory)?.sync_all()
        };
        write().map_err(Error::io("rewrite", log))?;
        *self.state = LogState::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use elevo_core::Timestamp;
    use elevo_engine::Owner;
    use elevo_objects::{Hash, SnapshotId};

    use super::*;
    use crate::provider::ProviderKind;
    use crate::record::State;

    fn record(n: u8) -> Record {
        Record {
            id: format!("ws-{n}").parse().unwrap(),
            state: State::Live,
            provider: ProviderKind::Copy,
            origin: SnapshotId(Hash::from_bytes([7; 32])),
            start: SnapshotId(Hash::from_bytes([6; 32])),
            base: SnapshotId(Hash::from_bytes([n; 32])),
            created: Timestamp::new(n.into(), 0).unwrap(),
            limit: None,
            owner: Some(Owner { uid: 1000, gid: 7 }),
            home: Some(SnapshotId(Hash::from_bytes([9; 32]))),
            read_only: true,
            unfinished: Some(SnapshotId(Hash::from_bytes([8; 32]))),
        }
    }

    fn open(directory: &tempfile::TempDir) -> Result<Registry> {
        let directory = directory.path();
        Registry::open(&directory.join("registry"), &directory.join("live"))
    }

    fn ids(registry: &Registry) -> Vec<String> {
        let locked = registry.lock().unwrap();
        locked.records().keys().map(ToString::to_string).collect()
    }

    #[test]
    fn a_process_reads_the_changes_of_another() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| open(&directory).unwrap());
        one.lock().unwrap().set(record(1)).unwrap();
        other.lock().unwrap().set(record(2)).unwrap();
        let parked = Record {
            state: State::Parked,
            ..record(1)
        };
        other.lock().unwrap().set(parked.clone()).unwrap();
        assert_eq!(ids(&one), ["ws-1", "ws-2"]);
        assert_eq!(one.lock().unwrap().get(&parked.id).unwrap(), parked);
        one.lock().unwrap().remove(&parked.id).unwrap();
        assert_eq!(ids(&other), ["ws-2"]);
    }

    #[test]
    fn a_truncated_line_is_dropped_and_a_damaged_one_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let registry = open(&directory).unwrap();
        registry.lock().unwrap().set(record(1)).unwrap();
        registry.lock().unwrap().set(record(2)).unwrap();
        let log = directory.path().join("registry/log");
        let good = fs::read(&log).unwrap();
        fs::write(&log, &good[..good.len() - 9]).unwrap();
        let registry = open(&directory).unwrap();
        assert_eq!(ids(&registry), ["ws-1"]);
        registry.lock().unwrap().set(record(3)).unwrap();
        let registry = open(&directory).unwrap();
        assert_eq!(ids(&registry), ["ws-1", "ws-3"]);
        fs::write(&log, [b"nonsense\n".as_slice(), &good].concat()).unwrap();
        let damaged = open(&directory).unwrap_err();
        assert!(matches!(damaged, Error::Registry { line: 1, .. }));
    }

    #[test]
    fn a_registry_of_a_newer_format_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let registry = open(&directory).unwrap();
        registry.lock().unwrap().set(record(1)).unwrap();
        let log = directory.path().join("registry/log");
        let good = fs::read(&log).unwrap();
        let newer = [b"{\"format\":3}\nof another kind\n".as_slice(), &good].concat();
        // A newer version replaces the log, as `compact` does.
        let new = log.with_extension("new");
        fs::write(&new, &newer).unwrap();
        fs::rename(&new, &log).unwrap();
        for rejected in [
            open(&directory).map(drop),
            registry.lock().map(drop),
            check_format(directory.path()),
        ] {
            let error = rejected.unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::NewerRegistry {
                        found: 3,
                        known: 1,
                        ..
                    }
                ),
                "{error:?}"
            );
            let text = error.to_string();
            assert!(text.contains("install the version that wrote it"), "{text}");
        }
        assert_eq!(fs::read(&log).unwrap(), newer);
        fs::write(&log, [b"{\"format\":1}\n".as_slice(), &good].concat()).unwrap();
        check_format(directory.path()).unwrap();
        assert_eq!(ids(&open(&directory).unwrap()), ["ws-1"]);
    }

    #[test]
    fn reads_lines_without_optional_fields() {
        let directory = tempfile::tempdir().unwrap();
        let [origin, base] = [[7; 32], [1; 32]].map(Hash::from_bytes);
        let line = format!(
            r#"{{"set":[{{"id":"ws-1","state":"live","provider":"copy","origin":"{origin}","base":"{base}","created":[1,0],"limit":null}}]}}"#
        );
        fs::create_dir(directory.path().join("registry")).unwrap();
        fs::write(directory.path().join("registry/log"), line + "\n").unwrap();
        let registry = open(&directory).unwrap();
        let old = Record {
            start: record(1).origin,
            owner: None,
            home: None,
            read_only: false,
            unfinished: None,
            ..record(1)
        };
        assert_eq!(registry.lock().unwrap().get(&old.id).unwrap(), old);
    }

    #[test]
    fn a_long_log_is_rewritten() {
        let directory = tempfile::tempdir().unwrap();
        let registry = open(&directory).unwrap();
        let other = open(&directory).unwrap();
        for _ in 0..=SPARE_LINES {
            registry.lock().unwrap().set(record(1)).unwrap();
        }
        let long = fs::metadata(directory.path().join("registry/log"))
            .unwrap()
            .len();
        let again = open(&directory).unwrap();
        let short = fs::metadata(directory.path().join("registry/log"))
            .unwrap()
            .len();
        assert!(short * 100 < long);
        assert_eq!(ids(&again), ["ws-1"]);
        again.lock().unwrap().set(record(2)).unwrap();
        assert_eq!(ids(&other), ["ws-1", "ws-2"]);
    }

    #[test]
    fn rejects_a_log_that_is_missing_or_empty_although_workspaces_exist() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("registry/log");
        fs::create_dir(directory.path().join("live")).unwrap();
        let registry = open(&directory).unwrap();
        assert!(fs::metadata(&log).unwrap().len() > 0);
        fs::create_dir(directory.path().join("live/ws-1")).unwrap();
        registry.lock().unwrap().set(record(1)).unwrap();
        let whole = fs::read(&log).unwrap();
        for is_empty in [false, true] {
            match is_empty {
                true => fs::write(&log, "").unwrap(),
                false => fs::remove_file(&log).unwrap(),
            }
            let running = registry.lock().err().unwrap();
            assert!(matches!(running, Error::NoRegistry(_)), "{running}");
            let rejected = open(&directory).unwrap_err();
            assert!(matches!(rejected, Error::NoRegistry(_)), "{rejected}");
        }
        fs::write(&log, whole).unwrap();
        assert_eq!(ids(&open(&directory).unwrap()), ["ws-1"]);
    }
}
