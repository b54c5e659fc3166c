//! Replaces the engine: an address where nothing answers, and the name of an image that is never requested.

pub(crate) fn engine_address() -> Option<std::ffi::OsString> {
    Some("unix:///nonexistent/docker.sock".into())
}

pub(crate) fn image() -> &'static str {
    "docker.io/library/act-test-busybox:1"
}
