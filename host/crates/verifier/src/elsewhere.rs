//! What serves an engine that does not see our files: how it is known to be one, the volumes that stand for
//! directories of this machine, and the archives that fill and empty them.

mod cache;
mod cache_volumes;
mod depot;
mod pack;
mod prepare;
mod sight;
mod transfer;

pub use self::cache_volumes::CacheVolume;
pub(super) use self::depot::Depot;
pub(super) use self::prepare::prepare_elsewhere;
pub(super) use self::sight::Sight;
