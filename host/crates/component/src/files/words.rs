//! What the view says, in the words of `wasi:filesystem`.

use rustix::fs::Stat;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorStat, DescriptorType, ErrorCode, MetadataHashValue,
};

use act_workspace::{Kind, ViewError};

pub(super) fn code(error: &ViewError) -> ErrorCode {
    match error {
        ViewError::NotFound | ViewError::Excluded { .. } => ErrorCode::NoEntry,
        ViewError::NotPermitted { .. } => ErrorCode::NotPermitted,
        ViewError::NotDirectory => ErrorCode::NotDirectory,
        ViewError::Loop => ErrorCode::Loop,
        ViewError::Invalid(_) => ErrorCode::Invalid,
        ViewError::TooLong => ErrorCode::NameTooLong,
        ViewError::Io(_) => ErrorCode::Io,
    }
}

pub(super) fn type_of(kind: Kind) -> DescriptorType {
    match kind {
        Kind::File => DescriptorType::RegularFile,
        Kind::Directory => DescriptorType::Directory,
        Kind::Link => DescriptorType::SymbolicLink,
    }
}

pub(super) fn stat(kind: Kind, stat: &Stat) -> DescriptorStat {
    let modified = Datetime {
        seconds: u64::try_from(stat.st_mtime).unwrap_or_default(),
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
    };
    DescriptorStat {
        type_: type_of(kind),
        link_count: 1,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        data_access_timestamp: None,
        data_modification_timestamp: Some(modified),
        status_change_timestamp: None,
    }
}

/// Of what only a scratch copy has.
pub(super) fn held_stat(kind: Kind, size: u64) -> DescriptorStat {
    DescriptorStat {
        type_: type_of(kind),
        link_count: 1,
        size,
        data_access_timestamp: None,
        data_modification_timestamp: Some(Datetime { seconds: 0, nanoseconds: 0 }),
        status_change_timestamp: None,
    }
}

/// It has no inode, so that its name stands for it.
pub(super) fn name_hash(path: &str) -> MetadataHashValue {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    MetadataHashValue { lower: hasher.finish(), upper: u64::MAX }
}

pub(super) fn identity(stat: &Stat) -> MetadataHashValue {
    MetadataHashValue { lower: stat.st_ino, upper: stat.st_dev }
}
