//! The table of exit codes.

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// SUCCESS, PROPOSED, PASS.
    Ok = 0,
    /// Refused or failed before running, nothing to do, a check that failed.
    Refused = 1,
    /// Invalid arguments.
    Usage = 2,
    /// STUCK, and FAIL of `verify`.
    Stuck = 3,
    /// INFRA_ERROR.
    Infra = 4,
    /// CANCELLED, by a signal or `act cancel`.
    Cancelled = 130,
}

impl Exit {
    /// Reads a stored code. Unknown codes mean INFRA_ERROR.
    pub fn of(code: u8) -> Self {
        let all = [Self::Ok, Self::Refused, Self::Usage, Self::Stuck, Self::Cancelled];
        all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Self::Infra)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
