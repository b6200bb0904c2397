//! The ioctls of btrfs (`include/uapi/linux/btrfs.h`) for subvolumes, their
//! snapshots, their limits and their usage.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{self, Getter, Opcode, Setter, Updater, opcode};

const GROUP: u8 = 0x94;
const LONGEST_NAME: usize = 255;
const READ_ONLY: u64 = 1 << 1;

const SUBVOLUME_CREATE: Opcode = opcode::write::<VolumeArguments2>(GROUP, 24);
const SNAPSHOT_CREATE: Opcode = opcode::write::<VolumeArguments2>(GROUP, 23);
const SUBVOLUME_DESTROY: Opcode = opcode::write::<VolumeArguments>(GROUP, 15);
const SYNC: Opcode = opcode::none(GROUP, 8);
const START_COMMIT: Opcode = opcode::read::<u64>(GROUP, 24);
const WAIT_FOR_COMMIT: Opcode = opcode::write::<u64>(GROUP, 22);
const FIND_INODE: Opcode = opcode::read_write::<FindInode>(GROUP, 18);
const ABOUT_VOLUME: Opcode = opcode::read::<AboutVolume>(GROUP, 31);
const QUOTA_CONTROL: Opcode = opcode::read_write::<QuotaControl>(GROUP, 40);
const GROUP_LIMIT: Opcode = opcode::read::<GroupLimit>(GROUP, 43);

/// Works on all file systems; see `include/uapi/linux/fs.h`.
const TRIM: Opcode = opcode::read_write::<TrimRange>(b'X', 121);

/// `struct fstrim_range`
#[repr(C)]
struct TrimRange {
    start: u64,
    length: u64,
    least: u64,
}

/// `struct btrfs_ioctl_vol_args`
#[repr(C)]
struct VolumeArguments {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`
#[repr(C)]
struct VolumeArguments2 {
    fd: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// `struct btrfs_ioctl_quota_ctl_args`
#[repr(C)]
struct QuotaControl {
    command: u64,
    status: u64,
}

/// `struct btrfs_ioctl_qgroup_limit_args`
#[repr(C)]
struct GroupLimit {
    group: u64,
    flags: u64,
    max_referenced: u64,
    max_exclusive: u64,
    reserved_referenced: u64,
    reserved_exclusive: u64,
}

/// `struct btrfs_ioctl_ino_lookup_args`
#[repr(C)]
struct FindInode {
    subvolume: u64,
    inode: u64,
    name: [u8; 4080],
}

/// `struct btrfs_ioctl_fs_info_args`
#[repr(C)]
struct AboutVolume {
    highest_device: u64,
    devices: u64,
    id: [u8; 16],
    rest: [u8; 992],
}

const _: () = assert!(size_of::<FindInode>() == 4096);
const _: () = assert!(size_of::<AboutVolume>() == 1024);
const _: () = assert!(size_of::<VolumeArguments>() == 4096);
const _: () = assert!(size_of::<VolumeArguments2>() == 4096);
const _: () = assert!(size_of::<GroupLimit>() == 48);

fn name<const N: usize>(text: &str) -> io::Result<[u8; N]> {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() > LONGEST_NAME || bytes.iter().any(|b| matches!(b, b'/' | 0))
    {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut name = [0; N];
    name[..bytes.len()].copy_from_slice(bytes);
    Ok(name)
}

/// Creates an empty subvolume in `directory`.
pub(crate) fn create(directory: impl AsFd, new: &str) -> io::Result<()> {
    let arguments = VolumeArguments2 {
        fd: 0,
        transaction: 0,
        flags: 0,
        unused: [0; 4],
        name: name(new)?,
    };
    // SAFETY: the opcode is for this structure, which the kernel only reads.
    let call = unsafe { Setter::<SUBVOLUME_CREATE, _>::new(arguments) };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    Ok(unsafe { ioctl::ioctl(directory, call) }?)
}

/// Creates a writable snapshot of the subvolume `of` in `directory`.
pub(crate) fn snapshot(directory: impl AsFd, of: impl AsFd, new: &str) -> io::Result<()> {
    snapshot_with(directory, of, new, 0)
}

/// Creates a read-only snapshot of the subvolume `of` in `directory`.
pub(crate) fn snapshot_read_only(directory: impl AsFd, of: impl AsFd, new: &str) -> io::Result<()> {
    snapshot_with(directory, of, new, READ_ONLY)
}

fn snapshot_with(directory: impl AsFd, of: impl AsFd, new: &str, flags: u64) -> io::Result<()> {
    let arguments = VolumeArguments2 {
        fd: std::os::fd::AsRawFd::as_raw_fd(&of.as_fd()).into(),
        transaction: 0,
        flags,
        unused: [0; 4],
        name: name(new)?,
    };
    // SAFETY: the opcode is for this structure, which the kernel only reads;
    // the descriptor in it is open until the call returns.
    let call = unsafe { Setter::<SNAPSHOT_CREATE, _>::new(arguments) };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    Ok(unsafe { ioctl::ioctl(directory, call) }?)
}

/// Deletes a subvolume of `directory` with its content.
pub(crate) fn destroy(directory: impl AsFd, old: &str) -> io::Result<()> {
    let arguments = VolumeArguments {
        fd: 0,
        name: name(old)?,
    };
    // SAFETY: the opcode is for this structure, which the kernel only reads.
    let call = unsafe { Setter::<SUBVOLUME_DESTROY, _>::new(arguments) };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    Ok(unsafe { ioctl::ioctl(directory, call) }?)
}

/// Enables quotas: simple quotas, whose cost does not grow with the number of
/// subvolumes (Linux 6.7), or else full ones.
pub(crate) fn enable_quota(volume: impl AsFd) -> io::Result<()> {
    const FULL: u64 = 1;
    const SIMPLE: u64 = 4;
    let enable = |command| {
        let mut arguments = QuotaControl { command, status: 0 };
        // SAFETY: the opcode is for this structure, which outlives the call.
        let call = unsafe { Updater::<QUOTA_CONTROL, _>::new(&mut arguments) };
        // SAFETY: as above; the kernel rejects a descriptor of another file system.
        unsafe { ioctl::ioctl(volume.as_fd(), call) }
    };
    Ok(enable(SIMPLE).or_else(|_| enable(FULL))?)
}

/// Limits the size of `subvolume`, in bytes; needs quotas.
pub(crate) fn limit(subvolume: impl AsFd, bytes: u64) -> io::Result<()> {
    const MAX_REFERENCED: u64 = 1;
    let arguments = GroupLimit {
        // 0 stands for the group of the subvolume itself.
        group: 0,
        flags: MAX_REFERENCED,
        max_referenced: bytes,
        max_exclusive: 0,
        reserved_referenced: 0,
        reserved_exclusive: 0,
    };
    // SAFETY: the opcode is for this structure, which the kernel only reads,
    // although the opcode has the direction "read".
    let call = unsafe { Setter::<GROUP_LIMIT, _>::new(arguments) };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    Ok(unsafe { ioctl::ioctl(subvolume, call) }?)
}

/// Reports free blocks to the device; the image file of a loop device gets
/// holes there.
pub(crate) fn trim(volume: impl AsFd) -> io::Result<()> {
    let mut all = TrimRange {
        start: 0,
        length: u64::MAX,
        least: 0,
    };
    // SAFETY: the opcode is for this structure, which outlives the call.
    let call = unsafe { Updater::<TRIM, _>::new(&mut all) };
    // SAFETY: as above; a file system that cannot trim rejects the call.
    Ok(unsafe { ioctl::ioctl(volume, call) }?)
}

/// Commits the running transaction: a subvolume that was deleted before stays
/// deleted after a crash. Does not write the data of open files, which
/// [`sync`] does.
pub(crate) fn commit(volume: impl AsFd) -> io::Result<()> {
    // SAFETY: the opcode is for this type.
    let start = unsafe { Getter::<START_COMMIT, u64>::new() };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    let transaction = unsafe { ioctl::ioctl(volume.as_fd(), start) }?;
    // SAFETY: the opcode is for this type, which the kernel only reads.
    let wait = unsafe { Setter::<WAIT_FOR_COMMIT, u64>::new(transaction) };
    // SAFETY: as above.
    Ok(unsafe { ioctl::ioctl(volume, wait) }?)
}

/// Commits the running transaction after all data, and starts the deletion of
/// removed subvolumes.
pub(crate) fn sync(volume: impl AsFd) -> io::Result<()> {
    // SAFETY: this call takes no argument.
    let call = unsafe { ioctl::NoArg::<SYNC>::new() };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    Ok(unsafe { ioctl::ioctl(volume, call) }?)
}

/// Returns the size of `subvolume` in bytes, including writes in progress;
/// `None` without quotas. (The kernel also reserves some space for metadata
/// until its next commit.)
pub(crate) fn used(subvolume: impl AsFd) -> io::Result<Option<u64>> {
    const COUNTED: [&str; 2] = ["referenced", "rsv_data"];
    let (volume, id) = (
        volume_id(subvolume.as_fd())?,
        subvolume_id(subvolume.as_fd())?,
    );
    let group = format!("/sys/fs/btrfs/{volume}/qgroups/0_{id}");
    let mut sum = 0;
    for name in COUNTED {
        let text = match fs::read_to_string(format!("{group}/{name}")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let bytes: u64 = text.trim().parse().map_err(io::Error::other)?;
        sum += bytes;
    }
    Ok(Some(sum))
}

/// Returns the UUID of the volume that contains `of`.
fn volume_id(of: impl AsFd) -> io::Result<String> {
    // SAFETY: the opcode is for this structure, which has no invalid values
    // and which the kernel fills.
    let call = unsafe { ioctl::Getter::<ABOUT_VOLUME, AboutVolume>::new() };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    let about = unsafe { ioctl::ioctl(of, call) }?;
    let mut text = String::with_capacity(36);
    for (at, byte) in about.id.iter().enumerate() {
        text.push_str(if matches!(at, 4 | 6 | 8 | 10) {
            "-"
        } else {
            ""
        });
        text.push_str(&format!("{byte:02x}"));
    }
    Ok(text)
}

fn subvolume_id(subvolume: impl AsFd) -> io::Result<u64> {
    /// The inode of the root of a subvolume.
    const ROOT: u64 = 256;
    let mut arguments = FindInode {
        // 0 stands for the subvolume of the descriptor.
        subvolume: 0,
        inode: ROOT,
        name: [0; 4080],
    };
    // SAFETY: the opcode is for this structure, which outlives the call.
    let call = unsafe { Updater::<FIND_INODE, _>::new(&mut arguments) };
    // SAFETY: as above; the kernel rejects a descriptor of another file system.
    unsafe { ioctl::ioctl(subvolume, call) }?;
    Ok(arguments.subvolume)
}
