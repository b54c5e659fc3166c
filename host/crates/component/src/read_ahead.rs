//! Compiled code of the built-in components, fetched from the cache while its task is still being prepared.
//!
//! Only code is fetched: nothing of it runs, and who is let in with what is decided and recorded when the component is
//! loaded, in its order. Code that is not in the cache is compiled then, too.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use wasmtime::Engine;
use wasmtime::component::Component;

use super::builtin::Builtin;
use super::cache::Cache;

type Fetching = JoinHandle<Option<Component>>;

/// By the component's digest. Clones share it; what is taken is gone.
#[derive(Clone, Default)]
pub(super) struct ReadAhead(Arc<Mutex<HashMap<&'static str, Fetching>>>);

impl ReadAhead {
    pub(super) fn begin(&self, engine: &Engine, dir: &Path, builtin: Builtin) {
        let cache = Cache::new(dir, engine, builtin.sha256);
        let engine = engine.clone();
        let fetching =
            Builder::new().name("read-ahead".to_owned()).spawn(move || cache.load(&engine));
        if let Ok(fetching) = fetching {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(builtin.sha256, fetching);
        }
    }

    /// Waits for it, if it was begun; none where the cache does not hold it.
    pub(super) fn take(&self, sha256: &str) -> Option<Component> {
        let fetching = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(sha256)?;
        fetching.join().ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::engine;

    const TINY: Builtin = Builtin { name: "tiny", bytes: b"\0asm\x0d\0\x01\0", sha256: "aa" };

    #[test]
    fn what_was_begun_is_taken_once_and_only_if_the_cache_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, engine) = (dir.path().join("code"), engine().unwrap());
        let ahead = ReadAhead::default();
        assert!(ahead.take(TINY.sha256).is_none());
        ahead.begin(&engine, &cache, TINY);
        assert!(ahead.take(TINY.sha256).is_none());

        let code = Component::from_binary(&engine, TINY.bytes).unwrap().serialize().unwrap();
        Cache::new(&cache, &engine, TINY.sha256).keep(&code).unwrap();
        ahead.begin(&engine, &cache, TINY);
        assert!(ahead.clone().take(TINY.sha256).is_some());
        assert!(ahead.take(TINY.sha256).is_none());
    }
}
