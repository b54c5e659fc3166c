//! Files and directories that an attacker may have prepared, opened by handle and never through a link.
//!
//! The crate promises that a name is looked up inside the directory that is open, even if names are moved meanwhile;
//! that no symbolic link is followed and no FIFO or device blocks the caller; that a file gets its name when its bytes
//! are complete; and that no lock is waited for without end. Every crate of the host may use it; it knows none of them.
//!
//! - [`Dir`] opens, reads, creates, replaces and lists by handle; [`Dir::stage`] writes a file before it has its name.
//! - [`Root`] opens a whole path beneath a directory.
//! - [`Walk`] visits all names below a directory.
//! - [`lock::try_lock`] and [`lock::wait`] are the two ways to take an advisory lock.
//! - [`owner`] finds and closes directories that other users can write.
//! - [`trusted`] reads files that count only if no other user can have written them.
//! - [`Sha256`] is the digest that names, records and manifests use.
//!
//! `cap-std` was considered. Its handles follow links that stay beneath the root, while this program has to judge or
//! refuse each link on the way, and to open files without blocking; `cap-tempfile` cannot choose what is synced.
//!
//! ```
//! use act_fs::{Dir, Durability};
//! # let temporary = tempfile::tempdir().unwrap();
//! let top = Dir::open(temporary.path()).unwrap();
//! let state = top.private_subdirectory("state").unwrap();
//! state.replace("number", b"1\n", Durability::ContentsAndName).unwrap();
//! assert_eq!(state.read("number", 100).unwrap(), b"1\n");
//! assert!(top.existing_subdirectory("missing").unwrap().is_none());
//! ```

mod beneath;
mod digest;
mod dir;
pub mod lock;
pub mod owner;
mod staged;
pub mod trusted;
mod walk;

pub use self::beneath::{LINK, MAX_DEPTH, Root};
pub use self::digest::{Sha256, hex};
pub use self::dir::{
    DIRECTORY, Dir, Identity, NEW, READ, check_private, create, file, read_bounded, read_first,
    read_last, regular,
};
pub use self::staged::{Durability, Staged};
pub use self::walk::{Entry, Walk};
