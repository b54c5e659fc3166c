//! The limits that are in force for every component, whatever else it is granted, and the one place where the engine
//! asks for them when a component wants to grow.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::ResourceLimiterAsync;
use wasmtime_wasi::async_trait;

use crate::bounds::{MAX_WASM, at_most, bounds, milliseconds, optional_milliseconds};
use crate::callers_thread::{ELEMENT, MEMORY, Stay};
use crate::capability::Meters;
use crate::failure::Limit;
use crate::manifest::SuggestedLimits;

/// Most memory that may be granted, in bytes: all that a component with 32-bit addresses can use.
pub(crate) const MAX_MEMORY: u64 = 4 << 30;
/// Longest wall time of one call, in milliseconds.
pub(crate) const MAX_WALL_MS: u64 = milliseconds::MOST;

bounds! {
    /// Bounds that are always in force, whatever else is granted.
    #[serde(default)]
    pub struct Limits, ceiling LimitsCeiling {
        /// Bytes of all linear memories together.
        #[serde(deserialize_with = "at_most::<{ MAX_MEMORY }, _, _>")]
        memory_bytes: u64 = 256 << 20;
        /// Wall time of one call.
        #[serde(rename = "wall_ms", with = "milliseconds")]
        wall: Duration = Duration::from_secs(60),
            ceiling #[serde(rename = "wall_ms", with = "optional_milliseconds")];
        /// Elements of all tables together.
        #[serde(deserialize_with = "at_most::<10_000_000, _, _>")]
        table_elements: u64 = 100_000;
        #[serde(deserialize_with = "at_most::<10_000, _, _>")]
        core_instances: u32 = 256;
        #[serde(deserialize_with = "at_most::<100_000, _, _>")]
        handles: u32 = 1_000;
        /// Bytes that the component may pass to the host in one call of a host function.
        #[serde(deserialize_with = "at_most::<{ 128 << 20 }, _, _>")]
        host_call_bytes: u64 = 8 << 20;
        #[serde(deserialize_with = "at_most::<{ 64 << 20 }, _, _>")]
        result_bytes: u64 = 4 << 20;
        #[serde(deserialize_with = "at_most::<{ 16 << 20 }, _, _>")]
        log_bytes: u64 = 64 << 10;
        #[serde(deserialize_with = "at_most::<{ MAX_WASM }, _, _>")]
        wasm_bytes: u64 = MAX_WASM;
    }
}

impl Limits {
    pub(crate) fn unlimited() -> Self {
        crate::bounds::Bound::unlimited()
    }

    /// Lowers the limits to those that the component's author suggests.
    pub(crate) fn narrow(&mut self, suggested: &SuggestedLimits) {
        if let Some(megabytes) = suggested.memory_mb {
            self.memory_bytes = self.memory_bytes.min(megabytes.saturating_mul(1 << 20));
        }
        if let Some(milliseconds) = suggested.wall_ms {
            self.wall = self.wall.min(Duration::from_millis(milliseconds));
        }
    }
}

/// Answers the engine when a component wants to grow. Amounts are counted over the whole store, because a component
/// may hold many memories and tables.
pub(crate) struct GrowthLimits {
    meters: Arc<Meters>,
    stay: Stay,
    instances: usize,
    /// The first limit that refused something.
    reached: Option<Limit>,
}

impl GrowthLimits {
    pub(crate) fn new(limits: &Limits, meters: Arc<Meters>, stay: Stay) -> Self {
        Self { meters, stay, instances: limits.core_instances as usize, reached: None }
    }

    pub(crate) fn reached(&self) -> Option<Limit> {
        self.reached
    }

    /// Moves the call to a thread of its own if it is going to have more than it may have on that of its caller.
    async fn move_before(&self, memory: u64, elements: u64) {
        let bytes = self.meters.memory.used().saturating_add(memory);
        let elements = self.meters.tables.used().saturating_add(elements);
        if bytes.saturating_add(elements.saturating_mul(ELEMENT)) > MEMORY {
            self.stay.move_away().await;
        }
    }

    /// Refuses without a trap: a component whose allocator copes may continue.
    fn refuse(&mut self, limit: Limit) -> bool {
        self.reached.get_or_insert(limit);
        false
    }
}

#[async_trait]
impl ResourceLimiterAsync for GrowthLimits {
    async fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        self.move_before(more, 0).await;
        Ok(self.meters.memory.take(more) || self.refuse(Limit::Memory))
    }

    async fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        self.move_before(0, more).await;
        Ok(self.meters.tables.take(more) || self.refuse(Limit::Tables))
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
    use crate::Grant;

    fn limits(limits: Limits) -> (GrowthLimits, Arc<Meters>) {
        let meters = Arc::new(Meters::new(&Grant { limits: limits.clone(), ..Grant::default() }));
        (GrowthLimits::new(&limits, Arc::clone(&meters), Stay::new(false)), meters)
    }

    // CAPABILITY-14
    #[tokio::test]
    async fn memories_are_counted_together() {
        let (mut limits, meters) = limits(Limits { memory_bytes: 100, ..Limits::default() });
        assert!(limits.memory_growing(0, 60, None).await.unwrap());
        assert!(!limits.memory_growing(0, 60, None).await.unwrap());
        assert_eq!(limits.reached(), Some(Limit::Memory));
        assert!(limits.memory_growing(0, 40, None).await.unwrap());
        assert_eq!(meters.memory.used(), 100);
    }

    #[tokio::test]
    async fn tables_are_counted_together() {
        let (mut limits, _) = limits(Limits { table_elements: 10, ..Limits::default() });
        assert!(limits.table_growing(0, 10, None).await.unwrap());
        assert!(!limits.table_growing(10, 11, None).await.unwrap());
        assert_eq!(limits.reached(), Some(Limit::Tables));
    }

    // CAPABILITY-14
    #[test]
    fn memories_and_tables_that_are_large_together_move_the_call() {
        use std::task::{Context, Poll, Waker};
        let meters = Arc::new(Meters::new(&Grant::default()));
        let stay = Stay::new(true);
        let mut limits = GrowthLimits::new(&Limits::default(), meters, stay.clone());
        let mut context = Context::from_waker(Waker::noop());
        let (half, elements) = (MEMORY as usize / 2, 50_000);
        let mut is_ready = |growing: std::pin::Pin<&mut dyn Future<Output = _>>| match growing
            .poll(&mut context)
        {
            Poll::Ready(granted) => Result::<bool, wasmtime::Error>::unwrap(granted),
            Poll::Pending => false,
        };
        assert!(is_ready(limits.memory_growing(0, half, None).as_mut()));
        assert!(is_ready(limits.table_growing(0, elements, None).as_mut()));
        assert!(!is_ready(limits.memory_growing(half, 2 * half, None).as_mut()));
        stay.end();
        assert!(is_ready(limits.memory_growing(half, 2 * half, None).as_mut()));
    }
}
