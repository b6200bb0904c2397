use std::collections::HashMap;
use std::net::IpAddr;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount as DockerMount, MountBindOptions, MountBindOptionsPropagationEnum, MountTmpfsOptions,
    MountType, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum, ThrottleDevice,
};

use super::{DockerSettings, LABEL_SANDBOX, LABEL_SERVER};
use crate::host_limits::HostLimits;
use crate::spec::{ContainerSpec, Mount, Network};

/// Size of a volume that an image declares.
const VOLUME_BYTES: i64 = 64 << 20;
/// Size of `/dev/shm`.
const SHM_BYTES: i64 = 64 << 20;
/// Maximum open files of a process. It must not exceed the limit of the engine
/// itself, or no container would start.
const OPEN_FILES: i64 = 16_384;
/// Adjustment of the OOM score: when the machine runs out of memory, the kernel
/// kills sandboxes before services.
const OOM_SCORE: i64 = 500;

/// Builds the request that creates a container. The request sets every option
/// that the engine's configuration could weaken.
pub(super) fn build(
    spec: &ContainerSpec,
    volumes: &[String],
    settings: &DockerSettings,
    dns: &[IpAddr],
    disks: &[String],
) -> ContainerCreateBody {
    let (entrypoint, arguments) = spec.command.split_at(spec.command.len().min(1));
    ContainerCreateBody {
        hostname: Some(
            spec.hostname
                .clone()
                .unwrap_or_else(|| hostname(&spec.sandbox)),
        ),
        user: Some(format!("{}:{}", spec.user.uid, spec.user.gid)),
        env: Some(spec.env.iter().map(|(k, v)| format!("{k}={v}")).collect()),
        entrypoint: Some(entrypoint.to_vec()),
        cmd: Some(arguments.to_vec()),
        // The image's health check would run beside the command of the sandbox.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        image: Some(spec.image.clone()),
        working_dir: Some(spec.working_dir.clone()),
        labels: Some(HashMap::from([
            (LABEL_SERVER.to_owned(), settings.server.clone()),
            (LABEL_SANDBOX.to_owned(), spec.sandbox.clone()),
        ])),
        attach_stdin: Some(false),
        open_stdin: Some(false),
        tty: Some(false),
        host_config: Some(HostConfig {
            mounts: Some(mounts(spec, volumes)),
            network_mode: Some(match spec.network {
                Network::None => "none".to_owned(),
                Network::Internet => settings.network.clone(),
            }),
            dns: (!dns.is_empty()).then(|| dns.iter().map(ToString::to_string).collect()),
            runtime: spec.runtime.clone(),
            ..hardened(limited_disks(limited(spec), &settings.limits, disks))
        }),
        ..ContainerCreateBody::default()
    }
}

fn limited(spec: &ContainerSpec) -> HostConfig {
    let memory = i64::try_from(spec.memory).ok();
    let ulimit = |name: &str, value| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(value),
        hard: Some(value),
    };
    let tmpfs = |(path, size): &(String, u64)| {
        let options = format!("rw,exec,nosuid,nodev,mode=1777,size={size}");
        (path.clone(), options)
    };
    HostConfig {
        memory,
        // This is the limit of memory and swap together, so the container has
        // no swap.
        memory_swap: memory,
        nano_cpus: Some(i64::from(spec.cpu_millis) * 1_000_000),
        pids_limit: Some(i64::from(spec.pids)),
        shm_size: Some(SHM_BYTES),
        ulimits: Some(vec![ulimit("nofile", OPEN_FILES), ulimit("core", 0)]),
        tmpfs: Some(spec.tmpfs.iter().map(tmpfs).collect()),
        readonly_rootfs: Some(!spec.writable_root),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), "1m".to_owned()),
                ("max-file".to_owned(), "2".to_owned()),
            ])),
        }),
        ..HostConfig::default()
    }
}

/// Adds the limits for each disk.
fn limited_disks(config: HostConfig, limits: &HostLimits, disks: &[String]) -> HostConfig {
    let each = |rate: i64| {
        let limit = |disk: &String| ThrottleDevice {
            path: Some(disk.clone()),
            rate: Some(rate),
        };
        (rate > 0).then(|| disks.iter().map(limit).collect::<Vec<_>>())
    };
    let bytes = each(i64::from(limits.disk_mib) << 20);
    let operations = each(i64::from(limits.disk_operations));
    HostConfig {
        blkio_device_read_bps: bytes.clone(),
        blkio_device_write_bps: bytes,
        blkio_device_read_iops: operations.clone(),
        blkio_device_write_iops: operations,
        ..config
    }
}

fn hardened(config: HostConfig) -> HostConfig {
    HostConfig {
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(Vec::new()),
        // Without an explicit profile, the engine's default seccomp filter
        // applies.
        security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
        devices: Some(Vec::new()),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        oom_score_adj: Some(OOM_SCORE),
        oom_kill_disable: Some(false),
        publish_all_ports: Some(false),
        // The agent is the first process and reaps the others.
        init: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        ..config
    }
}

fn mounts(spec: &ContainerSpec, volumes: &[String]) -> Vec<DockerMount> {
    let taken = |path: &str| {
        let targets = spec.mounts.iter().map(|mount| &mount.target);
        let mut targets = targets.chain(spec.tmpfs.iter().map(|(path, _)| path));
        targets.any(|target| target.trim_end_matches('/') == path.trim_end_matches('/'))
    };
    let free = volumes.iter().filter(|path| !taken(path));
    spec.mounts
        .iter()
        .map(bind)
        .chain(free.map(|path| volume(path)))
        .collect()
}

fn bind(mount: &Mount) -> DockerMount {
    let propagation = if mount.follow {
        MountBindOptionsPropagationEnum::RSLAVE
    } else {
        MountBindOptionsPropagationEnum::RPRIVATE
    };
    DockerMount {
        typ: Some(MountType::BIND),
        source: Some(mount.host.to_string_lossy().into_owned()),
        target: Some(mount.target.clone()),
        read_only: Some(mount.read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(propagation),
            ..MountBindOptions::default()
        }),
        ..DockerMount::default()
    }
}

/// Returns a tmpfs for a volume that an image declares. By default, the engine
/// would create a directory on the host's disk, without a limit.
fn volume(path: &str) -> DockerMount {
    DockerMount {
        typ: Some(MountType::TMPFS),
        target: Some(path.to_owned()),
        tmpfs_options: Some(MountTmpfsOptions {
            size_bytes: Some(VOLUME_BYTES),
            mode: Some(0o1777),
            options: None,
        }),
        ..DockerMount::default()
    }
}

/// Converts the id of a sandbox into a hostname, which is shorter and allows
/// fewer characters.
fn hostname(sandbox: &str) -> String {
    let name = sandbox.replace(['_', '.'], "-");
    let name = name.get(..name.len().min(63)).unwrap_or_default();
    name.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_the_name_of_a_sandbox_to_a_hostname() {
        assert_eq!(hostname("sbx-a_b.c"), "sbx-a-b-c");
        assert_eq!(hostname(&"x".repeat(100)).len(), 63);
    }
}
