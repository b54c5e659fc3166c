//! Loading: what is checked before anything runs, and the cache of compiled code.
