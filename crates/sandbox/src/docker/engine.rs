use std::path::PathBuf;

use bollard::Docker;
use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum};

use super::failure::{self, Subject};
use crate::error::{Error, Result};
use crate::runtime::RuntimeInfo;
use crate::spec::ContainerSpec;

/// The list of the machine's swap areas: a header, then a line for each area.
const SWAPS: &str = "/proc/swaps";

/// The engine's last report about itself.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) info: RuntimeInfo,
    limits_memory: bool,
    limits_swap: bool,
    limits_pids: bool,
    limits_cpu: bool,
    /// The directory with the engine's images and containers.
    pub(super) root: Option<PathBuf>,
}

impl Engine {
    pub(super) async fn read(docker: &Docker, host: &str) -> Result<Self> {
        let told = docker.info().await;
        let told = told.map_err(|error| failure::translate(host, Subject::Engine, error))?;
        let yes = |flag: Option<bool>| flag.unwrap_or_default();
        Ok(Self {
            limits_memory: yes(told.memory_limit),
            limits_swap: yes(told.swap_limit) || !has_swap().await,
            limits_pids: yes(told.pids_limit),
            limits_cpu: yes(told.cpu_cfs_quota),
            root: told.docker_root_dir.clone().map(PathBuf::from),
            info: info(docker, told),
        })
    }

    /// Rejects a spec with a limit that this engine would silently ignore.
    pub(super) fn check_limits(&self, spec: &ContainerSpec) -> Result<()> {
        let unable = |what, missing: &str| {
            let why = format!("the kernel or the engine lacks {missing}");
            Err(Error::refused(what, why))
        };
        if !self.filters_calls() {
            let why = "the engine runs containers without a seccomp filter; \
                       remove `seccomp-profile` from its settings";
            return Err(Error::refused("seccomp", why));
        }
        if !self.limits_memory {
            return unable("memory", "the memory controller of cgroups");
        }
        if !self.limits_swap {
            return unable(
                "memory",
                "a limit for swap; boot with swapaccount=1, or run swapoff",
            );
        }
        if !self.limits_pids {
            return unable("pids", "the pids controller of cgroups");
        }
        if !self.limits_cpu {
            return unable("cpu_millis", "the processor quota of cgroups");
        }
        let most = self.info.cpus.saturating_mul(1000);
        if spec.cpu_millis > most {
            let why = format!(
                "{} were requested; this machine has {most}",
                spec.cpu_millis
            );
            return Err(Error::refused("cpu_millis", why));
        }
        match &spec.runtime {
            Some(name) if !self.info.runtimes.contains(name) => {
                Err(Error::NoSuchRuntime { name: name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the engine reports that it filters system calls. The
    /// agent of a sandbox adds another filter, which does not depend on the
    /// engine.
    fn filters_calls(&self) -> bool {
        self.info.confinement().contains(&"seccomp")
    }
}

/// Returns whether a warning of the engine reports that it dropped a limit.
pub(super) fn drops_limit(warning: &str) -> bool {
    let warning = warning.to_lowercase();
    // Warnings about swap do not count, because `check_limits` has checked the limit
    // of swap. Limits of disks are optional.
    let may_lack = ["swap", "block i/o"];
    warning.contains("discarded") && !may_lack.iter().any(|word| warning.contains(word))
}

async fn has_swap() -> bool {
    let listed = tokio::task::spawn_blocking(|| std::fs::read_to_string(SWAPS)).await;
    // A kernel without swap does not have this file.
    listed.is_ok_and(|text| text.is_ok_and(|text| text.lines().count() > 1))
}

fn info(docker: &Docker, told: SystemInfo) -> RuntimeInfo {
    let mut runtimes: Vec<_> = told.runtimes.unwrap_or_default().into_keys().collect();
    runtimes.sort();
    RuntimeInfo {
        engine: format!("docker {}", told.server_version.unwrap_or_default()),
        api_version: docker.client_version().to_string(),
        kernel: told.kernel_version.unwrap_or_default(),
        storage_driver: told.driver.unwrap_or_default(),
        runtimes,
        live_restore: told.live_restore_enabled.unwrap_or_default(),
        cgroup_version: match told.cgroup_version {
            Some(SystemInfoCgroupVersionEnum::_2) => 2,
            _ => 1,
        },
        security_options: told.security_options.unwrap_or_default(),
        cpus: told.ncpu.and_then(|n| n.try_into().ok()).unwrap_or(1),
        memory: told.mem_total.and_then(|n| n.try_into().ok()).unwrap_or(0),
        internet: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::spec;

    fn engine() -> Engine {
        Engine {
            info: RuntimeInfo {
                engine: "docker 20.10.24".to_owned(),
                api_version: "1.41".to_owned(),
                kernel: "6.1".to_owned(),
                storage_driver: "overlay2".to_owned(),
                runtimes: vec!["runc".to_owned()],
                live_restore: false,
                cgroup_version: 2,
                security_options: vec!["name=seccomp,profile=default".to_owned()],
                cpus: 2,
                memory: 1 << 30,
                internet: None,
            },
            limits_memory: true,
            limits_swap: true,
            limits_pids: true,
            limits_cpu: true,
            root: None,
        }
    }

    fn refused(change: impl FnOnce(&mut Engine)) -> &'static str {
        let mut engine = engine();
        change(&mut engine);
        match engine.check_limits(&spec()) {
            Err(Error::Refused { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rejects_a_limit_that_the_engine_lacks() {
        engine().check_limits(&spec()).unwrap();
        assert_eq!(refused(|engine| engine.limits_memory = false), "memory");
        assert_eq!(refused(|engine| engine.limits_swap = false), "memory");
        assert_eq!(refused(|engine| engine.limits_pids = false), "pids");
        assert_eq!(refused(|engine| engine.limits_cpu = false), "cpu_millis");
        assert_eq!(refused(|engine| engine.info.cpus = 0), "cpu_millis");
    }

    #[test]
    fn an_engine_without_a_seccomp_filter_runs_no_sandbox() {
        let with = |options: &[&str]| {
            let options = options.iter().map(|&option| option.to_owned()).collect();
            refused(|engine| engine.info.security_options = options)
        };
        assert_eq!(with(&[]), "seccomp");
        assert_eq!(with(&["name=apparmor"]), "seccomp");
        assert_eq!(with(&["name=seccomp,profile=unconfined"]), "seccomp");
    }

    #[test]
    fn returns_the_active_confinement_mechanisms() {
        let mut info = engine().info;
        assert_eq!(info.confinement(), ["seccomp"]);
        let options = [
            "name=apparmor",
            "name=seccomp,profile=builtin",
            "name=userns",
        ];
        info.security_options = options.map(str::to_owned).to_vec();
        assert_eq!(info.confinement(), ["apparmor", "seccomp", "userns"]);
        info.security_options = vec!["name=seccomp,profile=unconfined".to_owned()];
        assert!(info.confinement().is_empty());
    }

    #[test]
    fn a_runtime_must_be_known() {
        let mut spec = spec();
        spec.runtime = Some("runsc".to_owned());
        let error = engine().check_limits(&spec).unwrap_err();
        assert!(matches!(error, Error::NoSuchRuntime { name } if name == "runsc"));
    }

    #[test]
    fn detects_only_warnings_about_discarded_limits() {
        assert!(drops_limit(
            "Your kernel does not support pids limit capabilities. PIDs limit discarded."
        ));
        assert!(!drops_limit(
            "Your kernel does not support BPS Block I/O read limit or the cgroup is not \
             mounted. Block I/O BPS read limit discarded."
        ));
        assert!(!drops_limit(
            "IPv4 forwarding is disabled. Networking will not work."
        ));
        assert!(!drops_limit(
            "Your kernel does not support swap limit capabilities. Memory limited without swap."
        ));
    }
}
