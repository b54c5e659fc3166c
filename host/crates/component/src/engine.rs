//! The engine, in two forms that load the same compiled code. A call runs in a slot of a pool, whose memory, tables and
//! stack are mapped once and reset after each call. What fits no slot gets memory from the system on demand: a component
//! with more memories or tables than a slot has, a grant of larger tables, every call while all slots are taken, and all
//! calls on a system that has no address space for the pool.

use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{Component, InstancePre};
use wasmtime::{Config, Engine, PoolingAllocationConfig, Strategy};

use crate::cache;
use crate::call::State;
use crate::callers_thread::{Ticker, Watched};
use crate::capability::Grant;
use crate::host::linker;

/// Stack of a component's own calls, in bytes.
const GUEST_STACK: usize = 512 << 10;
/// Stack of a call, in bytes. The host functions that the component calls use the part beyond the component's own stack.
const FIBER_STACK: usize = 2 << 20;

/// Calls that run in the pool at the same time: four times the threads that wait for calls, because Scouts and the Editor's
/// reads of several tasks overlap. A slot reserves the 4 GiB that a component can address, so all of them take 129 GiB of
/// addresses and no memory.
const SLOTS: u32 = 32;
/// Linear memories of one component. Compilers make components with one.
const MEMORIES: u32 = 1;
/// Tables of one component: that of its code, that of its imports, and the same again for an adapter.
const TABLES: u32 = 4;
/// Elements of one table: the usual limit of a grant.
const TABLE_ELEMENTS: usize = 100_000;
/// Free slots that stay prepared for the component that had them last: as many as threads that wait for calls.
const PREPARED: u32 = crate::workers::MAX_IDLE as u32;
/// Bytes of a table that are cleared instead of given back to the system. A usual table has fewer.
const TABLE_KEPT: usize = 16 << 10;
/// Bytes of a stack that are cleared instead of given back to the system. A usual call needs fewer.
const STACK_KEPT: usize = 32 << 10;

/// The engines of one host. Clones share them.
#[derive(Clone)]
pub(crate) struct Engines(Arc<Both>);

struct Both {
    /// `None` where the system has no addresses for it.
    pool: Option<Pool>,
    /// Made when it is needed.
    on_demand: OnceLock<Engine>,
    ticker: Ticker,
}

impl Both {
    fn tick(&self) {
        let engines = self.pool.as_ref().map(|pool| &pool.engine).into_iter();
        engines.chain(self.on_demand.get()).for_each(Engine::increment_epoch);
    }
}

struct Pool {
    engine: Engine,
    /// One permit for each slot.
    free: Arc<Semaphore>,
}

/// Where one call runs. A slot of the pool is free again when this value is dropped, which has to be after its store.
pub(crate) struct Place {
    pub(crate) engine: Engine,
    engines: Engines,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// Begins a call on the thread of its caller, which has to hold the result until the call has ended or moved. Returns
    /// `None` if the call must not run there.
    pub(crate) fn watch(&self) -> Option<Watched> {
        let Engines(both) = &self.engines;
        both.ticker.watch(|| {
            let both = Arc::downgrade(both);
            move || both.upgrade().map(|both| both.tick()).is_some()
        })
    }
}

impl Engines {
    /// # Errors
    ///
    /// An error of the engine if this system is not supported.
    pub(crate) fn new() -> wasmtime::Result<Self> {
        let free = Arc::new(Semaphore::new(SLOTS as usize));
        let pool = Engine::new(&pooled()).ok().map(|engine| Pool { engine, free });
        let (on_demand, ticker) = (OnceLock::new(), Ticker::default());
        let this = Self(Arc::new(Both { pool, on_demand, ticker }));
        if this.0.pool.is_none() {
            this.on_demand()?;
        }
        Ok(this)
    }

    /// Returns an engine that compiles and has the identity of both.
    ///
    /// # Errors
    ///
    /// An error of the engine.
    pub(crate) fn any(&self) -> wasmtime::Result<&Engine> {
        match &self.0.pool {
            Some(pool) => Ok(&pool.engine),
            None => self.on_demand(),
        }
    }

    /// # Errors
    ///
    /// An error of the engine.
    fn on_demand(&self) -> wasmtime::Result<&Engine> {
        if let Some(engine) = self.0.on_demand.get() {
            return Ok(engine);
        }
        let engine = on_demand()?;
        Ok(self.0.on_demand.get_or_init(|| engine))
    }

    /// Loads compiled code of this program for the pool, or on demand if the component fits no slot. `deserialize` loads it for one
    /// engine.
    ///
    /// # Errors
    ///
    /// An error of the engine if the code is damaged.
    pub(crate) fn load(
        &self,
        deserialize: impl Fn(&Engine) -> wasmtime::Result<Component>,
    ) -> wasmtime::Result<Component> {
        match self.0.pool.as_ref().map(|pool| deserialize(&pool.engine)) {
            Some(Ok(component)) => Ok(component),
            Some(Err(_)) | None => deserialize(self.on_demand()?),
        }
    }
}

/// The code of one component, linked with what its grant covers, in each engine that its calls need.
pub(crate) struct Code<P> {
    engines: Engines,
    component: Component,
    grant: Grant,
    typed: fn(InstancePre<State>) -> wasmtime::Result<P>,
    /// `None` if the component or its grant fits no slot.
    pooled: Option<P>,
    /// Made when it is needed.
    on_demand: OnceLock<P>,
}

impl<P: Clone> Code<P> {
    /// # Errors
    ///
    /// An error of the engine if the component imports what is not linked, or does not export what `typed` looks for.
    pub(crate) fn new(
        engines: Engines,
        component: Component,
        grant: Grant,
        typed: fn(InstancePre<State>) -> wasmtime::Result<P>,
    ) -> wasmtime::Result<Self> {
        let (pooled, on_demand) = (None, OnceLock::new());
        let mut this = Self { engines, component, grant, typed, pooled, on_demand };
        let engine = this.component.engine();
        let in_pool =
            this.engines.0.pool.as_ref().filter(|pool| Engine::same(&pool.engine, engine));
        if in_pool.is_some() && this.grant.limits.table_elements <= TABLE_ELEMENTS as u64 {
            this.pooled = Some(this.linked(&this.component)?);
        } else {
            this.on_demand()?;
        }
        Ok(this)
    }

    fn linked(&self, component: &Component) -> wasmtime::Result<P> {
        (self.typed)(linker(component.engine(), &self.grant)?.instantiate_pre(component)?)
    }

    /// # Errors
    ///
    /// An error of the engine.
    fn on_demand(&self) -> wasmtime::Result<&P> {
        if let Some(linked) = self.on_demand.get() {
            return Ok(linked);
        }
        let engine = self.engines.on_demand()?;
        let linked = if Engine::same(self.component.engine(), engine) {
            self.linked(&self.component)?
        } else {
            self.linked(&cache::deserialize(engine, &self.component.serialize()?)?)?
        };
        Ok(self.on_demand.get_or_init(|| linked))
    }

    /// Returns the place for one call, and the code to be instantiated there.
    ///
    /// # Errors
    ///
    /// An error of the engine.
    pub(crate) fn place(&self) -> wasmtime::Result<(Place, P)> {
        if let (Some(pool), Some(linked)) = (&self.engines.0.pool, &self.pooled)
            && let Ok(slot) = Arc::clone(&pool.free).try_acquire_owned()
        {
            let (engine, engines) = (pool.engine.clone(), self.engines.clone());
            return Ok((Place { engine, engines, _slot: Some(slot) }, linked.clone()));
        }
        let linked = self.on_demand()?.clone();
        let (engine, engines) = (self.engines.on_demand()?.clone(), self.engines.clone());
        Ok((Place { engine, engines, _slot: None }, linked))
    }
}

/// Makes the engine without a pool, which is enough to compile.
///
/// # Errors
///
/// An error of the engine if this system is not supported.
pub(crate) fn on_demand() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        // A stack of the pool is used again. No component can read it, and it holds nothing all the same.
        .async_stack_zeroing(true)
        // A trap is reported in one line: no frames are collected and no map from code to source is stored.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false);
    config
}

/// The settings of the engine with the pool.
pub(crate) fn pooled() -> Config {
    let mut config = config();
    config.allocation_strategy(slots());
    config
}

/// The pool. Memories are reset by the system, to zeros and to the image of the component's data, and nothing of them is
/// kept. Protection keys of the processor are not used: they save addresses, which are not scarce, and the engine calls
/// them experimental.
fn slots() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(SLOTS)
        // Each store limits its instances itself (`core_instances` of the grant).
        .total_core_instances(u32::MAX)
        .total_stacks(SLOTS)
        .total_memories(SLOTS * MEMORIES)
        .max_memories_per_component(MEMORIES)
        .total_tables(SLOTS * TABLES)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .table_elements(TABLE_ELEMENTS)
        .max_unused_warm_slots(PREPARED)
        // Memory is given back at once and not in batches, so that nothing of a call outlives its store.
        .decommit_batch_size(1)
        .linear_memory_keep_resident(0)
        .table_keep_resident(TABLE_KEPT)
        .async_stack_keep_resident(STACK_KEPT);
    pool
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use act_core::event::Events;
    use futures_util::future::join_all;
    use tokio_util::sync::CancellationToken;
    use wasm_encoder::{
        BlockType, CanonicalOption, CodeSection, ComponentBuilder, ComponentExportKind,
        ComponentValType, ConstExpr, DataSection, ExportKind, ExportSection, Function,
        FunctionSection, GlobalSection, GlobalType, InstructionSink, MemArg, MemorySection,
        MemoryType, Module, PrimitiveValType, RefType, TableSection, TableType, TypeSection,
        ValType,
    };

    use super::*;
    use crate::call::Services;
    use crate::failure::ComponentFailure;
    use crate::host::{ComponentHost, ToolCode, ToolComponent};
    use crate::limits::Limits;

    /// Bytes in the data of the component below, which are the image of its memory.
    const IMAGE: i64 = 0x1122_3344_5566_7788;
    const IMAGE_AT: i32 = 256;
    const PAGE: i32 = 64 << 10;
    /// New memory that one call takes: 1 MiB.
    const PAGES: i32 = 16;
    const GROWTH: i32 = 50_000;

    /// Repeats `body` for each `i` from `from` in steps, while it is less than what `end` pushes.
    fn each(
        code: &mut InstructionSink<'_>,
        i: u32,
        step: i32,
        end: impl FnOnce(&mut InstructionSink<'_>),
        body: impl FnOnce(&mut InstructionSink<'_>),
    ) {
        code.block(BlockType::Empty).loop_(BlockType::Empty).local_get(i);
        end(code);
        code.i32_ge_u().br_if(1);
        body(code);
        code.local_get(i).i32_const(step).i32_add().local_set(i).br(0).end().end();
    }

    /// A component with one function, `seek`. It counts the words of its memory, the elements of its tables and the global
    /// variables that are not as they are in a new instance, with 1 MiB more of memory. Then it writes to everything, makes
    /// its table larger and fills it.
    fn seeker(memories: usize, tables: usize) -> Vec<u8> {
        const COUNT: u32 = 0;
        const I: u32 = 1;
        const END: u32 = 2;
        let word = MemArg { offset: 0, align: 3, memory_index: 0 };
        let mut function = Function::new([(1, ValType::I64), (2, ValType::I32)]);
        let mut code = function.instructions();
        let count = |code: &mut InstructionSink<'_>| {
            code.local_get(COUNT).i64_add().local_set(COUNT);
        };
        // The image is there once, and the new pages of memory are zero.
        code.i32_const(IMAGE_AT).i64_load(word).i64_const(IMAGE).i64_ne().i64_extend_i32_u();
        count(&mut code);
        code.i64_const(-1);
        count(&mut code);
        code.i32_const(PAGES).memory_grow(0).i32_const(PAGES).i32_add();
        code.i32_const(PAGE).i32_mul().local_set(END);
        let memory_end = |code: &mut InstructionSink<'_>| {
            code.local_get(END);
        };
        each(&mut code, I, 8, memory_end, |code| {
            code.local_get(I).i64_load(word).i64_const(0).i64_ne().i64_extend_i32_u();
            count(code);
        });
        code.i32_const(0).i32_const(0xa5).local_get(END).memory_fill(0);
        for table in 0..tables as u32 {
            code.i32_const(0).local_set(I);
            let table_end = |code: &mut InstructionSink<'_>| {
                code.table_size(table);
            };
            each(&mut code, I, 1, table_end, |code| {
                code.local_get(I).table_get(table).ref_is_null().i32_eqz().i64_extend_i32_u();
                count(code);
            });
        }
        code.ref_func(0).i32_const(GROWTH).table_grow(0).i32_const(-1).i32_eq().i64_extend_i32_u();
        count(&mut code);
        code.i32_const(0).ref_func(0).table_size(0).table_fill(0);
        code.global_get(0);
        count(&mut code);
        code.i64_const(7).global_set(0).local_get(COUNT).end();

        let mut module = Module::new();
        let mut types = TypeSection::new();
        types.ty().function([], [ValType::I64]);
        let mut functions = FunctionSection::new();
        functions.function(0);
        let mut all_tables = TableSection::new();
        let table = TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: 4,
            maximum: None,
            shared: false,
        };
        for _ in 0..tables {
            all_tables.table(table);
        }
        let mut all_memories = MemorySection::new();
        let memory = MemoryType {
            minimum: 1,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        };
        for _ in 0..memories {
            all_memories.memory(memory);
        }
        let mut globals = GlobalSection::new();
        let global = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
        globals.global(global, &ConstExpr::i64_const(0));
        let mut exports = ExportSection::new();
        exports.export("seek", ExportKind::Func, 0);
        let mut codes = CodeSection::new();
        codes.function(&function);
        let mut data = DataSection::new();
        data.active(0, &ConstExpr::i32_const(IMAGE_AT), IMAGE.to_le_bytes());
        module.section(&types).section(&functions).section(&all_tables).section(&all_memories);
        module.section(&globals).section(&exports).section(&codes).section(&data);
        exporting("seek", &module)
    }

    /// A component with one function, which computes for ever if `computes`, and otherwise returns at once.
    fn small(computes: bool) -> Vec<u8> {
        let mut types = TypeSection::new();
        types.ty().function([], [ValType::I64]);
        let mut functions = FunctionSection::new();
        functions.function(0);
        let mut exports = ExportSection::new();
        exports.export("run", ExportKind::Func, 0);
        let mut function = Function::new([]);
        let mut code = function.instructions();
        if computes {
            code.loop_(BlockType::Empty).br(0).end();
        }
        code.i64_const(0).end();
        let mut codes = CodeSection::new();
        codes.function(&function);
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&exports).section(&codes);
        exporting("run", &module)
    }

    /// The component that exports one function of a module.
    fn exporting(name: &str, module: &Module) -> Vec<u8> {
        let mut component = ComponentBuilder::default();
        let module = component.core_module(None, module);
        let instance = component.core_instantiate(None, module, [] as [(&str, _); 0]);
        let lifted = component.core_alias_export(None, instance, name, ExportKind::Func);
        let (kind, mut function) = component.type_function(None);
        let no_parameters: [(&str, ComponentValType); 0] = [];
        function
            .async_(false)
            .params(no_parameters)
            .result(Some(ComponentValType::Primitive(PrimitiveValType::U64)));
        let options: [CanonicalOption; 0] = [];
        let lifted = component.lift_func(None, lifted, kind, options);
        component.export(name, ComponentExportKind::Func, lifted, None);
        component.finish()
    }

    fn load(host: &ComponentHost, component: &[u8], table_elements: u64) -> ToolComponent {
        let limits = Limits { table_elements, ..Limits::default() };
        let grant = Grant { limits, ..Grant::default() };
        host.load(component, grant, &Events::silent()).unwrap().into_tool().unwrap()
    }

    /// A tool whose calls have threads of their own from their beginning.
    fn with_threads(mut tool: ToolComponent) -> ToolComponent {
        tool.component.grant.repo_history = true;
        assert!(tool.component.grant.may_wait());
        tool
    }

    async fn call(
        tool: &ToolComponent,
        function: &str,
        cancel: &CancellationToken,
    ) -> Result<String, ComponentFailure> {
        let services = Services {
            view: None,
            versions: None,
            writer: None,
            model: None,
            attempt: 1,
            events: Events::silent(),
        };
        let called = tool.call(function, "{}", services, Duration::from_secs(60), cancel).await;
        called.map(|outcome| outcome.text)
    }

    async fn seek(tool: &ToolComponent) -> String {
        call(tool, "seek", &CancellationToken::new()).await.unwrap()
    }

    async fn finds_nothing(tool: &ToolComponent) {
        for _ in 0..20 {
            assert_eq!(seek(tool).await, "0");
        }
        for found in join_all((0..8).map(|_| seek(tool))).await {
            assert_eq!(found, "0");
        }
    }

    fn code(tool: &ToolComponent) -> &Code<InstancePre<State>> {
        let ToolCode::Foreign(code, _) = &tool.code else { panic!("it has a manifest") };
        code
    }

    fn pool(tool: &ToolComponent) -> &Pool {
        code(tool).engines.0.pool.as_ref().expect("this system has addresses for a pool")
    }

    // CAPABILITY-14, security line 720
    #[tokio::test]
    async fn no_byte_of_a_call_is_in_the_slot_that_the_next_one_gets() {
        let host = ComponentHost::new(None);
        let tools = [seeker(1, 1), seeker(1, 1), seeker(1, 1)];
        let [first, second, third] = tools.map(|tool| load(&host, &tool, 100_000));
        let tools = [first, second, with_threads(third)];
        for tool in &tools {
            assert!(code(tool).pooled.is_some());
            finds_nothing(tool).await;
        }
        // Slots pass from one component to another too.
        for found in join_all((0..60).map(|i| seek(&tools[i % tools.len()]))).await {
            assert_eq!(found, "0");
        }
    }

    // CAPABILITY-56, security line 720
    #[tokio::test]
    async fn what_fits_no_slot_gets_memory_on_demand() {
        let host = ComponentHost::new(None);
        for (memories, tables, table_elements) in
            [(2, 1, 100_000), (1, 5, 100_000), (1, 1, 200_000)]
        {
            let tool = load(&host, &seeker(memories, tables), table_elements);
            assert!(code(&tool).pooled.is_none(), "{memories} {tables} {table_elements}");
            finds_nothing(&tool).await;
            finds_nothing(&with_threads(tool)).await;
        }
    }

    // CAPABILITY-56
    #[tokio::test]
    async fn calls_beyond_the_slots_get_memory_on_demand_and_slots_are_free_again() {
        let host = ComponentHost::new(None);
        let tool = with_threads(load(&host, &seeker(1, 1), 100_000));
        let free = Arc::clone(&pool(&tool).free);
        let taken = Arc::clone(&free).acquire_many_owned(SLOTS).await.unwrap();
        assert!(code(&tool).place().unwrap().0._slot.is_none());
        finds_nothing(&tool).await;
        drop(taken);
        assert!(code(&tool).place().unwrap().0._slot.is_some());
        for found in join_all((0..3 * SLOTS).map(|_| seek(&tool))).await {
            assert_eq!(found, "0");
        }
        settled(&tool).await;
    }

    /// Waits until no call has a slot any more.
    async fn settled(tool: &ToolComponent) {
        let begun = Instant::now();
        while pool(tool).free.available_permits() < SLOTS as usize {
            assert!(begun.elapsed() < Duration::from_secs(30), "a slot is not free again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    // CAPABILITY-56
    #[tokio::test]
    async fn free_slots_hold_little_memory_after_a_hundred_calls_side_by_side() {
        let host = ComponentHost::new(None);
        let tools = [seeker(1, 1), seeker(1, 4)];
        let tools = tools.map(|tool| with_threads(load(&host, &tool, 100_000)));
        for found in join_all((0..100).map(|i| seek(&tools[i % 2]))).await {
            assert_eq!(found, "0");
        }
        settled(&tools[0]).await;
        let held = pool(&tools[0]).engine.pooling_allocator_metrics().unwrap();
        assert_eq!(held.unused_memory_bytes_resident(), 0);
        let (tables, stacks) =
            (held.unused_table_bytes_resident(), held.unused_stack_bytes_resident().unwrap());
        assert!(tables + stacks <= 3 << 20, "{tables} {stacks}");
        let most = SLOTS as usize * (TABLES as usize * TABLE_KEPT + STACK_KEPT);
        assert!(most <= 3 << 20, "the specification says 3 MiB");
    }

    // CAPABILITY-14
    #[tokio::test]
    async fn a_short_call_needs_no_thread_of_its_own() {
        // A machine may be so busy that a call takes until the second tick, so several are tried.
        let never = CancellationToken::new();
        for _ in 0..100 {
            let host = ComponentHost::new(None);
            let tool = load(&host, &small(false), 100_000);
            assert_eq!(call(&tool, "run", &never).await.unwrap(), "0");
            if tool.component.workers.idle() == 0
                && pool(&tool).free.available_permits() == SLOTS as usize
            {
                return;
            }
        }
        panic!("each call had a thread of its own");
    }

    // CAPABILITY-14
    #[test]
    fn a_component_with_an_interface_that_may_take_long_does_not_begin_with_its_caller() {
        let mut tool = load(&ComponentHost::new(None), &small(false), 100_000).component;
        assert!(tool.may_stay());
        for (import, stays) in [
            ("wasi:cli/stdout@0.2.6", true),
            ("agentcommand:types/types@1.1.0", true),
            ("agentcommand:scout/progress@1.0.0", false),
            ("agentcommand:repo/read@1.5.0", false),
            ("wasi:logging/logging", false),
            ("wasi:http/outgoing-handler@0.2.6", false),
        ] {
            tool.imports = vec![import.to_owned()];
            assert_eq!(tool.may_stay(), stays, "{import}");
        }
    }

    // CAPABILITY-14, CAPABILITY-15
    #[tokio::test]
    async fn a_call_that_computes_leaves_the_thread_of_its_caller() {
        let host = ComponentHost::new(None);
        let tool = load(&host, &small(true), 100_000);
        let cancel = CancellationToken::new();
        // This runtime has one thread, so the second future runs once the call has left it.
        let (ended, ()) = tokio::join!(call(&tool, "run", &cancel), async { cancel.cancel() });
        assert!(matches!(ended, Err(ComponentFailure::Cancelled)), "{ended:?}");
        settled(&tool).await;
        assert!(matches!(call(&tool, "run", &cancel).await, Err(ComponentFailure::Cancelled)));
    }

    /// Runs in a process of its own, whose address space has a limit.
    #[tokio::test]
    #[ignore = "run by `without_addresses_for_a_pool_every_call_gets_memory_on_demand`"]
    async fn calls_without_a_pool() {
        let tool = load(&ComponentHost::new(None), &seeker(1, 1), 100_000);
        assert!(code(&tool).engines.0.pool.is_none());
        finds_nothing(&tool).await;
        println!("called");
    }

    // CAPABILITY-56
    #[test]
    fn without_addresses_for_a_pool_every_call_gets_memory_on_demand() {
        // 100 GiB, in KiB: less than the pool takes, and enough for the eight calls side by side.
        let limited = std::process::Command::new("/bin/sh")
            .args(["-c", r#"ulimit -v 104857600 && exec "$0" "$@""#])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "engine::tests::calls_without_a_pool", "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&limited.stdout);
        assert!(limited.status.success() && shown.contains("called"), "{shown}");
    }
}
