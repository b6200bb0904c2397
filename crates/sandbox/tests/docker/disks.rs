//! Tests the limits of a sandbox on the machine's disks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use elevo_sandbox::{ContainerSpec, HostLimits, Mount, SandboxRuntime};
use elevo_testkit::docker;

use crate::support::{Installation, with_limits};

/// Creates a directory on a disk. The usual directory for temporary files may
/// be in memory.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), all).unwrap();
    directory
}

fn writing(own: &Installation, directory: &Path, script: &str) -> ContainerSpec {
    let mut spec = own.spec(script);
    spec.image = docker::image();
    spec.mounts = vec![Mount {
        host: directory.to_owned(),
        target: "/data".to_owned(),
        read_only: false,
        follow: false,
    }];
    spec
}

const SLOW: HostLimits = HostLimits {
    disk_mib: 1,
    disk_operations: 200,
    ..HostLimits::NONE
};

#[test]
fn a_sandbox_writes_and_reads_a_bounded_number_of_bytes_a_second() {
    with_limits(SLOW, async |own| {
        let directory = directory();
        for script in [
            "dd if=/dev/zero of=/data/file bs=256k count=32 oflag=direct 2>/dev/null; echo done",
            "dd if=/data/file of=/dev/null bs=256k iflag=direct 2>/dev/null; echo done",
        ] {
            let start = Instant::now();
            let said = own.output(&writing(&own, directory.path(), script)).await;
            assert_eq!(said, "done\n");
            let written = std::fs::metadata(directory.path().join("file"))
                .unwrap()
                .len();
            assert_eq!(written, 8 << 20);
            // The script writes eight megabytes. The kernel does not delay the
            // first megabyte.
            let took = start.elapsed();
            assert!(took >= Duration::from_secs(5), "{script}: {took:?}");
        }
    });
}

#[test]
fn every_disk_of_a_sandbox_has_its_limits() {
    with_limits(SLOW, async |own| {
        let directory = directory();
        let id = own
            .start(&writing(&own, directory.path(), "sleep 1000"))
            .await;
        let config = own.inspect(&id).await.host_config.unwrap();
        let rates = |limits: Option<Vec<bollard::models::ThrottleDevice>>| {
            let limits = limits.unwrap_or_default().into_iter();
            let rates: Vec<_> = limits.map(|limit| limit.rate.unwrap()).collect();
            assert!(!rates.is_empty(), "no disk was found");
            rates
        };
        for bytes in [config.blkio_device_read_bps, config.blkio_device_write_bps] {
            assert!(rates(bytes).iter().all(|rate| *rate == 1 << 20));
        }
        for operations in [
            config.blkio_device_read_iops,
            config.blkio_device_write_iops,
        ] {
            assert!(rates(operations).iter().all(|rate| *rate == 200));
        }
    });
}

/// With cgroup v1, the kernel does not limit these writes, and the server logs
/// a warning.
#[test]
fn writes_that_the_kernel_delays_are_limited_with_cgroup_v2() {
    with_limits(SLOW, async |own| {
        let directory = directory();
        let script = "dd if=/dev/zero of=/data/file bs=256k count=32 conv=fsync 2>/dev/null";
        let start = Instant::now();
        own.output(&writing(&own, directory.path(), script)).await;
        let slowed = start.elapsed() >= Duration::from_secs(5);
        let version = own.runtime.check().await.unwrap().cgroup_version;
        assert!(slowed || version < 2, "{:?}", start.elapsed());
    });
}
