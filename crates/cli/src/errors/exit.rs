/// Exit codes of the process. `docs/cli.md` has this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    NotFound,
    Conflict,
    Busy,
    Damaged,
    Differences,
    /// Part of a merge is held for review or was refused.
    Held,
    /// `exec`, `attach` or `shell` itself failed; their other codes are those of
    /// the command they ran.
    Itself,
    /// The code of a command that `exec`, `attach`, `shell`, `ws exec` or `ws
    /// shell` ran.
    Of(u8),
}

impl Exit {
    /// Returns the exit for the code of a command. A code that does not fit is
    /// a failure.
    pub(crate) fn of_command(code: i32) -> Self {
        Self::Of(u8::try_from(code).unwrap_or(1))
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Busy => 5,
            Self::Damaged => 6,
            Self::Differences => 7,
            Self::Held => 8,
            Self::Itself => 125,
            Self::Of(code) => code,
        }
    }
}
