//! Streams over a file of the scratch layer.

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::scratch::{Full, Scratch};

/// Bytes that one read gives, or one write takes, at most.
const AT_ONCE: usize = 1 << 20;

pub(super) struct Reading {
    pub(super) scratch: Scratch,
    pub(super) path: String,
    pub(super) offset: u64,
}

/// From an offset on, or always at the end.
pub(super) struct Writing {
    pub(super) scratch: Scratch,
    pub(super) path: String,
    pub(super) offset: Option<u64>,
}

#[async_trait]
impl Pollable for Reading {
    async fn ready(&mut self) {}
}

impl InputStream for Reading {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let bytes = self.scratch.read(&self.path, self.offset, size.min(AT_ONCE));
        match bytes {
            Some(bytes) if !bytes.is_empty() => {
                self.offset += bytes.len() as u64;
                Ok(bytes.into())
            }
            _ => Err(StreamError::Closed),
        }
    }
}

#[async_trait]
impl Pollable for Writing {
    async fn ready(&mut self) {}
}

impl OutputStream for Writing {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let end = self.scratch.write(&self.path, self.offset, &bytes);
        let end = end.map_err(|Full| StreamError::LastOperationFailed(Full.into()))?;
        self.offset = self.offset.map(|_| end);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(AT_ONCE)
    }
}
