//! What the tools need of a repository. The component reaches the host's through WIT, tests have one in memory.

pub use act_kit::world::Hit;

/// Number and digest, as the host counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub number: u64,
    pub digest: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Link,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    pub kind: Kind,
}

/// One page of something, and the cursor of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
    /// The host gave up before the end.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    /// Of the whole file.
    pub size: u64,
    pub version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Create(String, Vec<u8>),
    Replace(String, Version, Vec<u8>),
    Delete(String, Version),
    Move(String, Version, String),
}

/// Why the host did not do it; the texts begin with a stable word where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    NotFound,
    Invalid(String),
    Denied(String),
    Limit(String),
    /// Not the request's fault.
    Failed(String),
    /// The file is at another version, or gone.
    Conflict(Option<Version>),
    Exists(String),
    Protected(String, String),
}

pub trait Repository {
    fn list(&self, under: &str, cursor: Option<String>) -> Result<Page<Entry>, Denial>;
    fn read(&self, path: &str, offset: u64, length: u64) -> Result<Chunk, Denial>;
    fn search(
        &self,
        regex: &str,
        glob: Option<&str>,
        cursor: Option<String>,
    ) -> Result<Page<Hit>, Denial>;
    /// The new version; none for a delete.
    fn apply(&self, change: Change) -> Result<Option<Version>, Denial>;
}
