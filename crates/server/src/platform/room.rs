//! The space on the server's disks: a limit above which requests that need
//! space are rejected, and a reserve for work that must continue.
//!
//! ```text
//! 0 %                                        DISK_FULL_PERCENT             100 %
//! ├─ all requests ───────────────────────────┼─ only what frees space ─────┤
//!                                                       the reserve is used ┘
//! ```
//!
//! Deletion, expiry and collection write a little before they free space. The
//! reserve provides the space for these writes: `DATA_DIR/reserve` contains a
//! few files that only occupy space. Such a piece is deleted whenever the disk
//! has less free space than the size of one piece. The pieces are created again
//! when the disk is below the limit. A start on a full disk deletes pieces as
//! well, before it opens the databases.
//!
//! A command that writes fast uses the space of every piece as soon as the
//! piece is deleted. So the server delays the second half of the pieces: it
//! deletes each of them only after it has limited the growth of all workspaces,
//! or made their pools read-only, since it deleted the piece before. Otherwise
//! one sandbox could use the whole reserve, and the server would have no space
//! left to delete that sandbox.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::config::Config;
use crate::failure::{Failure, Result};

const RESERVE: &str = "reserve";
/// The number of files in a reserve.
const PIECES: u64 = 8;
/// The number of pieces that are deleted without waiting for limits on
/// workspaces.
const EARLY: u64 = PIECES / 2;
/// The size of a reserve: the disk divided by `SHARE`, but at most `MOST`
/// bytes. RocksDB needs 64 MiB to continue after a full disk.
const SHARE: u64 = 20;
const MOST: u64 = 512 << 20;

/// The disks of a server: of the data directory and, if it differs, of the
/// workspaces.
#[derive(Debug)]
pub(crate) struct Room {
    disks: Vec<Disk>,
    full_percent: u8,
    capped: Capped,
}

/// Counts the rounds in which the growth of all workspaces was limited.
#[derive(Debug, Default)]
struct Capped {
    rounds: AtomicU64,
    /// The value of `rounds` when the disks last had enough space, or when a
    /// piece of a reserve was last deleted.
    before: AtomicU64,
}

impl Capped {
    fn begin(&self) {
        let rounds = self.rounds.load(Ordering::Acquire);
        self.before.store(rounds, Ordering::Release);
    }

    /// Returns whether a whole round has run since [`Self::begin`]. This is
    /// sure only after two rounds have ended, because the first of them may
    /// have begun before.
    fn is_done(&self) -> bool {
        let rounds = self.rounds.load(Ordering::Acquire);
        rounds >= self.before.load(Ordering::Acquire) + 2
    }
}

/// A disk, identified by a directory on it.
#[derive(Debug)]
struct Disk(PathBuf);

/// The space of a disk in bytes.
#[derive(Clone, Copy, Debug)]
struct Space {
    total: u64,
    free: u64,
}

impl Space {
    /// Returns the bytes that can be written before `percent` of the disk is
    /// used.
    fn until(self, percent: u8) -> u64 {
        let kept = self.total / 100 * u64::from(100 - percent.min(100));
        self.free.saturating_sub(kept)
    }

    fn piece(self) -> u64 {
        (self.total / SHARE).min(MOST) / PIECES
    }
}

/// A change of the reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tended {
    Unchanged,
    /// Pieces were deleted. The value is the number of pieces that are left.
    GivenUp(usize),
    /// Pieces were created again.
    MadeAgain,
}

impl Room {
    pub(crate) fn new(config: &Config) -> Self {
        let mut disks = vec![Disk(config.data_dir.clone())];
        let device = |path: &Path| fs::metadata(path).map(|stat| stat.dev()).ok();
        if device(&config.data_dir) != device(&config.workspace_root)
            && config.workspace_root.exists()
        {
            disks.push(Disk(config.workspace_root.clone()));
        }
        Self {
            disks,
            full_percent: config.full_percent,
            capped: Capped::default(),
        }
    }

    /// Records that a round has limited the growth of all workspaces that need
    /// a limit.
    pub(crate) fn has_capped(&self) {
        self.capped.rounds.fetch_add(1, Ordering::AcqRel);
    }

    /// Fails if a disk is too full for new data.
    pub(crate) fn check(&self) -> Result<()> {
        let full = self.spaces().find(|(_, space)| self.is_beyond(*space));
        let Some((disk, space)) = full else {
            return Ok(());
        };
        let used = (space.total - space.free).saturating_mul(100) / space.total.max(1);
        let mark = self.full_percent;
        let message = format!(
            "the server's disk is {used} % full; the server rejects new data at {mark} % or more"
        );
        tracing::debug!(disk = %disk.0.display(), used, "rejected a request because the disk is full");
        Err(Failure::full(message))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.spaces().any(|(_, space)| self.is_beyond(space))
    }

    /// Returns the total and the free bytes of the data directory's disk.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let space = self.disks.first().map(Disk::space);
        let space = space.and_then(io::Result::ok);
        space.map_or((0, 0), |space| (space.total, space.free))
    }

    /// Returns the bytes that can be written before a disk is full.
    pub(crate) fn left(&self) -> u64 {
        let left = self
            .spaces()
            .map(|(_, space)| space.until(self.full_percent));
        left.min().unwrap_or(u64::MAX)
    }

    /// Returns whether every disk has a little free space, so that writes that
    /// free more space do not fail.
    pub(crate) fn is_passable(&self) -> bool {
        self.spaces()
            .all(|(_, space)| space.free >= space.piece() / 2)
    }

    /// Returns whether a disk is so nearly full that the growth of workspaces
    /// must be checked often.
    pub(crate) fn is_tight(&self) -> bool {
        let near = |(_, space): (&Disk, Space)| space.until(self.full_percent) < space.total / 10;
        self.spaces().any(near)
    }

    fn is_beyond(&self, space: Space) -> bool {
        space.until(self.full_percent) == 0
    }

    /// Returns the space of each disk. Disks that cannot be read are left out:
    /// operations on them fail by themselves.
    fn spaces(&self) -> impl Iterator<Item = (&Disk, Space)> {
        let spaces = self.disks.iter().map(|disk| (disk, disk.space()));
        spaces.filter_map(|(disk, space)| Some((disk, space.ok()?)))
    }

    /// Deletes pieces of the reserves as far as necessary, or creates them
    /// again. Blocks.
    pub(crate) fn tend(&self) -> Tended {
        let is_tight = self.spaces().any(|(_, space)| space.free < space.piece());
        if !is_tight {
            self.capped.begin();
        }
        let tended = self.tend_to(self.full_percent, self.capped.is_done());
        if matches!(tended, Tended::GivenUp(_)) {
            self.capped.begin();
        }
        tended
    }

    /// Deletes pieces of the reserves as far as necessary, and creates none.
    /// Blocks.
    pub(crate) fn make_way(&self) {
        while let Tended::GivenUp(_) = self.tend_to(0, true) {}
    }

    /// Adjusts the reserves. Creates pieces again only if the disk usage stays
    /// below `percent`. Deletes at most one piece of the second half of each
    /// reserve, and only if `gives_late` is set.
    fn tend_to(&self, percent: u8, gives_late: bool) -> Tended {
        let mut all = Tended::Unchanged;
        for disk in &self.disks {
            match disk.tend(percent, gives_late) {
                Ok(Tended::Unchanged) => {}
                Ok(tended) => all = tended,
                Err(error) => {
                    let (path, cause) = (disk.0.display(), error.to_string());
                    tracing::debug!(%path, cause, "cannot adjust the reserve");
                }
            }
        }
        all
    }
}

impl Disk {
    /// Returns the space of the disk. Blocks that only root may use are not
    /// free, as in `df`.
    fn space(&self) -> io::Result<Space> {
        let disk = statvfs(&self.0)?;
        let used = disk.f_blocks.saturating_sub(disk.f_bfree);
        Ok(Space {
            total: (used + disk.f_bavail) * disk.f_frsize,
            free: disk.f_bavail * disk.f_frsize,
        })
    }

    fn piece(&self, number: u64) -> PathBuf {
        self.0.join(RESERVE).join(number.to_string())
    }

    fn tend(&self, full_percent: u8, mut gives_late: bool) -> io::Result<Tended> {
        let mut tended = Tended::Unchanged;
        for number in 0..PIECES {
            let (space, path) = (self.space()?, self.piece(number));
            let is_there = path.exists();
            let is_late = number >= EARLY;
            if is_there && space.free < space.piece() && (gives_late || !is_late) {
                fs::remove_file(path)?;
                gives_late &= !is_late;
                tended = Tended::GivenUp((PIECES - number - 1) as usize);
            } else if !is_there && space.until(full_percent) > 2 * space.piece() {
                self.make(&path, space.piece())?;
                tended = Tended::MadeAgain;
            }
        }
        Ok(tended)
    }

    fn make(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let directory = self.0.join(RESERVE);
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // The file is renamed last, so that a file with its final name is
        // complete.
        let unfinished = directory.join("new");
        let made = File::create(&unfinished).and_then(|file| {
            fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            fs::rename(&unfinished, path)
        });
        if made.is_err() {
            let _ = fs::remove_file(unfinished);
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_left_ends_at_the_limit() {
        let space = |free| Space { total: 1000, free };
        assert_eq!(space(300).until(95), 250);
        assert_eq!(space(51).until(95), 1);
        assert_eq!(space(50).until(95), 0);
        assert_eq!(space(0).until(95), 0);
        assert_eq!(space(10).until(100), 10);
    }

    #[test]
    fn late_pieces_wait_for_a_whole_round_of_limits() {
        let room = Room {
            disks: Vec::new(),
            full_percent: 95,
            capped: Capped::default(),
        };
        room.has_capped();
        room.has_capped();
        room.capped.begin();
        assert!(!room.capped.is_done());
        room.has_capped();
        assert!(!room.capped.is_done(), "this round may have begun before");
        room.has_capped();
        assert!(room.capped.is_done());
    }

    #[test]
    fn a_reserve_is_a_part_of_a_small_disk_and_bounded_on_a_large_one() {
        let piece = |total| Space { total, free: 0 }.piece();
        assert_eq!(piece(4 << 30), (4 << 30) / SHARE / PIECES);
        assert_eq!(piece(4 << 40), MOST / PIECES);
    }
}
