//! Memory, tables and instances of one store, counted over all of it: a component may hold many memories.

use wasmtime::ResourceLimiter;

use super::failure::Limit;
use super::grant::Limits;
use super::usage::Usage;

pub(super) struct StoreLimits {
    memory: u64,
    memory_left: u64,
    elements_left: u64,
    instances: usize,
    /// The first limit that was refused.
    reached: Option<Limit>,
    usage: Usage,
}

impl StoreLimits {
    pub(super) fn new(limits: &Limits, usage: Usage) -> Self {
        Self {
            memory: 0,
            memory_left: limits.memory_bytes,
            elements_left: limits.table_elements,
            instances: limits.core_instances as usize,
            reached: None,
            usage,
        }
    }

    pub(super) fn reached(&self) -> Option<Limit> {
        self.reached
    }

    /// A refusal and not a trap: a guest whose allocator copes may go on.
    fn refuse(&mut self, limit: Limit) -> bool {
        self.reached.get_or_insert(limit);
        false
    }
}

impl ResourceLimiter for StoreLimits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        let Some(left) = self.memory_left.checked_sub(more) else {
            return Ok(self.refuse(Limit::Memory));
        };
        self.memory_left = left;
        // A memory never shrinks, so this is the most there was.
        self.memory += more;
        self.usage.memory(self.memory);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        let Some(left) = self.elements_left.checked_sub(more) else {
            return Ok(self.refuse(Limit::Tables));
        };
        self.elements_left = left;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::EventKind;

    // CAPABILITY-14
    #[test]
    fn memories_are_counted_together() {
        let usage = Usage::default();
        let most = Limits { memory_bytes: 100, ..Limits::default() };
        let mut limits = StoreLimits::new(&most, usage.clone());
        assert!(limits.memory_growing(0, 60, None).unwrap());
        assert!(!limits.memory_growing(0, 60, None).unwrap());
        assert_eq!(limits.reached(), Some(Limit::Memory));
        assert!(limits.memory_growing(0, 40, None).unwrap());
        let EventKind::ComponentUsed { memory_bytes, .. } = usage.event("guest", "aa") else {
            panic!()
        };
        assert_eq!(memory_bytes, 100);
    }

    #[test]
    fn tables_are_counted_together() {
        let most = Limits { table_elements: 10, ..Limits::default() };
        let mut limits = StoreLimits::new(&most, Usage::default());
        assert!(limits.table_growing(0, 10, None).unwrap());
        assert!(!limits.table_growing(10, 11, None).unwrap());
        assert_eq!(limits.reached(), Some(Limit::Tables));
    }
}
