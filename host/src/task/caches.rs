//! The download caches of all repositories: shown, and thrown away.

use std::path::Path;

use crate::artifacts::{ArtifactDir, CacheSize};
use crate::output::Failure;

#[derive(Debug)]
pub struct CacheList {
    pub path: std::path::PathBuf,
    pub caches: Vec<CacheSize>,
}

#[derive(Debug)]
pub struct Cleared {
    pub cleared: Vec<CacheSize>,
    /// Held by runs, and left alone.
    pub in_use: usize,
}

pub fn list_caches() -> Result<CacheList, Failure> {
    let artifacts = open()?;
    let caches = artifacts.cache_sizes().map_err(unreadable)?;
    Ok(CacheList { path: artifacts.path().join("cache"), caches })
}

pub fn clear_caches() -> Result<Cleared, Failure> {
    let (cleared, in_use) = open()?.clear_caches().map_err(unreadable)?;
    Ok(Cleared { cleared, in_use })
}

/// These commands need no repository; where there is one, ARTIFACT_DIR must not lie in it.
fn open() -> Result<std::sync::Arc<ArtifactDir>, Failure> {
    let root = crate::config::find_root(Path::new("."))?;
    super::preflight::artifacts_for(root.as_ref().map(|root| root.path.as_path()))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::refused("cache_unusable", format!("the cache cannot be read or changed: {error}"))
        .hint("look at the owner and the modes of the artifact directory")
}
