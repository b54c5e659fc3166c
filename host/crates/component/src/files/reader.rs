//! Bytes of one open file, within what the grant allows: no further than a file's cap, and no more than the
//! query has left.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, Pollable, StreamError, StreamResult};

use crate::capability::Meters;

/// Bytes that one read gives at most.
pub(super) const MAX_READ: usize = 1 << 20;

/// Reads one file from an offset, within what the grant allows.
pub(super) struct Reader {
    file: Arc<File>,
    path: String,
    offset: u64,
    /// No byte from here on.
    most: u64,
    meters: Arc<Meters>,
}

/// A cap of the grant is spent.
#[derive(Debug, thiserror::Error)]
#[error("{path}: over the bytes that may be read")]
pub(super) struct Spent {
    pub(super) path: String,
}

impl Reader {
    pub(super) fn new(
        file: Arc<File>,
        path: &str,
        offset: u64,
        most: u64,
        meters: Arc<Meters>,
    ) -> Self {
        Self { file, path: path.to_owned(), offset, most, meters }
    }

    /// The next bytes; none at the end of the file.
    pub(super) fn read(&mut self, size: usize) -> Result<Bytes, ReaderError> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let allowed = self.meters.repo_read.bytes.left().min(self.most.saturating_sub(self.offset));
        let size = size.min(MAX_READ).min(usize::try_from(allowed).unwrap_or(usize::MAX));
        if size == 0 {
            // At the end there is nothing to be refused.
            let more = self.file.read_at(&mut [0], self.offset).map_err(ReaderError::Io)?;
            return if more == 0 { Ok(Bytes::new()) } else { Err(self.spent()) };
        }
        let mut buffer = BytesMut::zeroed(size);
        let count = loop {
            match self.file.read_at(&mut buffer, self.offset) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                done => break done.map_err(ReaderError::Io)?,
            }
        };
        buffer.truncate(count);
        self.offset += count as u64;
        self.meters.repo_read.bytes.spend(count as u64);
        Ok(buffer.freeze())
    }

    fn spent(&self) -> ReaderError {
        ReaderError::Spent(Spent { path: self.path.clone() })
    }
}

pub(super) enum ReaderError {
    Spent(Spent),
    Io(std::io::Error),
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {}
}

impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        match Reader::read(self, size) {
            Ok(bytes) if bytes.is_empty() => Err(StreamError::Closed),
            Ok(bytes) => Ok(bytes),
            Err(ReaderError::Spent(spent)) => Err(StreamError::LastOperationFailed(spent.into())),
            Err(ReaderError::Io(error)) => Err(StreamError::LastOperationFailed(error.into())),
        }
    }
}
