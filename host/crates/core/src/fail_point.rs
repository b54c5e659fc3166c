//! Places where tests kill or stop the process, as a machine could at any time. They exist only in builds with debug
//! assertions, not in releases.

/// Returns whether a test has selected this place.
pub fn is_wanted(name: &str) -> bool {
    #[cfg(debug_assertions)]
    return std::env::var("ACT_FAIL_POINT").is_ok_and(|wanted| wanted == name);
    #[cfg(not(debug_assertions))]
    {
        let _ = name;
        false
    }
}

/// Kills this process if `ACT_FAIL_POINT` names the place, or stops it if the value is `stop:NAME`.
pub fn reach(name: &str) {
    #[cfg(debug_assertions)]
    {
        use rustix::process::{Signal, getpid, kill_process};
        let wanted = std::env::var("ACT_FAIL_POINT").unwrap_or_default();
        let signal = match wanted.strip_prefix("stop:") {
            Some(place) if place == name => Signal::STOP,
            None if wanted == name => Signal::KILL,
            _ => return,
        };
        let _ = kill_process(getpid(), signal);
        // The signal may reach another thread first; this thread must not continue meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}
