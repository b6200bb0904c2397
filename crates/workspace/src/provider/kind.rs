//! [`ProviderKind`]: names the ways to create a workspace.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The ways to create a workspace. Unless one is requested, the first that
/// works is used. The private kinds after [`Copy`](Self::Copy) must be
/// requested, since other processes cannot see their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// An overlay mounted over layers that all workspaces share.
    Overlay,
    /// An overlay whose snapshot need not be written out before the first
    /// workspace is created: files are fetched when they are read.
    Lazy,
    /// Files that share their content with a base directory until they are
    /// written to.
    Reflink,
    /// A copy of every file.
    Copy,
    /// Like `Overlay`, for users who may not mount: only processes that
    /// [enter](crate::Entrance) the workspace see its files.
    Rootless,
    /// Like `Lazy`, for users who may not mount.
    RootlessLazy,
}

impl ProviderKind {
    /// All kinds, in order of preference.
    pub const ALL: [Self; 6] = [
        Self::Overlay,
        Self::Lazy,
        Self::Reflink,
        Self::Copy,
        Self::Rootless,
        Self::RootlessLazy,
    ];

    /// Whether only processes that enter such a workspace see its files.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::Rootless | Self::RootlessLazy)
    }

    /// The name in settings, records and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Lazy => "lazy",
            Self::Reflink => "reflink",
            Self::Copy => "copy",
            Self::Rootless => "rootless",
            Self::RootlessLazy => "rootless-lazy",
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProviderKind {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(" or ");
            format!("`{text}` is not a provider; use {names}")
        })
    }
}
