//! Runs a test with each provider, in a separate namespace.

use elevo_testkit::disk;
use elevo_workspace::ProviderKind;

use super::{Fixture, make_deletable};

/// Runs each `fn test(fixture: &Fixture)` of the file with each provider. The
/// tests in `of_root` do not run in a user namespace.
macro_rules! on_every_provider {
    ($($test:ident)* $(; of_root: $($of_root:ident)*)?) => {
        $crate::support::providers::on_every_provider_of_root! { $($test)* $($($of_root)*)? }
        $crate::support::providers::by! { rootless $($test)* }
        $crate::support::providers::by! { rootless_lazy $($test)* }
    };
}
pub(crate) use on_every_provider;

/// Like `on_every_provider`, without user namespaces, where files cannot have
/// another owner or be visible to other processes.
macro_rules! on_every_provider_of_root {
    ($($test:ident)*) => {
        $crate::support::providers::by! { copy $($test)* }
        $crate::support::providers::by! { overlay $($test)* }
        $crate::support::providers::by! { lazy $($test)* }
        $crate::support::providers::by! { pooled $($test)* }
        $crate::support::providers::by! { reflink $($test)* }
    };
}
pub(crate) use on_every_provider_of_root;

/// Declares the tests of one provider. The function in this module with the
/// name of the provider runs them.
macro_rules! by {
    ($way:ident $($test:ident)*) => {
        mod $way {
            $(#[test]
            fn $test() {
                let name = concat!(stringify!($way), "::", stringify!($test));
                super::support::providers::$way(name, super::$test);
            })*
        }
    };
}
pub(crate) use by;

/// Runs a test on copies.
pub(crate) fn copy(name: &str, test: fn(&Fixture)) {
    // With copies, only the read-only workspaces of root are mounts, so other
    // users need no namespace.
    if !rustix::process::geteuid().is_root() || disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Fixture::new(directory.path(), ProviderKind::Copy));
        make_deletable(directory.path());
    }
}

/// Runs a test on overlays without a pool.
pub(crate) fn overlay(name: &str, test: fn(&Fixture)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Fixture::new(directory.path(), ProviderKind::Overlay));
    }
}

/// Runs a test on overlays over served snapshots.
pub(crate) fn lazy(name: &str, test: fn(&Fixture)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Fixture::lazy(directory.path()));
    }
}

/// Runs a test on overlays with their uppers in a pool.
pub(crate) fn pooled(name: &str, test: fn(&Fixture)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Fixture::pooled(directory.path()));
    }
}

/// Runs a test on clones, in a file system that supports them.
pub(crate) fn reflink(name: &str, test: fn(&Fixture)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        let disk = disk::Disk::make_cloning(directory.path(), "disk", 1 << 30);
        test(&Fixture::new(disk.path(), ProviderKind::Reflink));
    }
}

/// Runs a test on overlays in a user namespace.
pub(crate) fn rootless(name: &str, test: fn(&Fixture)) {
    if disk::in_user_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Fixture::new(directory.path(), ProviderKind::Rootless));
    }
}

/// Runs a test on overlays over served snapshots in a user namespace.
pub(crate) fn rootless_lazy(name: &str, test: fn(&Fixture)) {
    if disk::in_user_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Fixture::served(
            directory.path(),
            ProviderKind::RootlessLazy,
        ));
    }
}
