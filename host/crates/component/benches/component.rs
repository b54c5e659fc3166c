//! `scripts/bench component`: the cost of the capability boundary. It measures a warm component that is instantiated and
//! called with its grants and limits, compared with the engine alone; the first call of a cached one in a new process; and
//! every file of a repository read through the filtered view, compared with plain WASI and with native reads.
//!
//! The calls are those of a tool that returns its arguments, with the grants that it has by default. The files are read by
//! a Scout of the tests. No measurement includes a record of the audit log. BENCH_FILES is the number of files (20,000),
//! BENCH_CALLS of calls (10,000), BENCH_STARTS of processes (20).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on panics"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use act_component::{
    ComponentHost, Grant, Loaded, ScoutComponent, ScoutQuestion, Services, ToolComponent,
    custom_section,
};
use act_core::event::Events;
use act_workspace::{Profile, RepoView};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, ResourceTable, ResourceType, Val};
use wasmtime::{
    Config, Engine, Store, StoreContextMut, StoreLimits, StoreLimitsBuilder, UpdateDeadline,
};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};

use bindings::ToolPre;

mod bindings {
    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "agentcommand:worlds/tool@1.2.0",
        exports: { default: async },
    });
}

/// Variable with the cache directory, which is set in the process whose first call is measured.
const CHILD: &str = "ACT_BENCH_FIRST_CALL";
/// A time limit that no measurement reaches.
const PLENTY: Duration = Duration::from_secs(600);
/// Bytes of one file, so that 20,000 of them have 244 MB.
const FILE: usize = 12_200;

fn main() {
    let start = Instant::now();
    if let Some(cache) = std::env::var_os(CHILD) {
        let loaded = load(Path::new(&cache));
        ask(&loaded, "remember", None);
        println!("{}", start.elapsed().as_secs_f64() * 1e3);
        return;
    }
    let place = tempfile::tempdir_in(".").unwrap();
    let place = place.path().canonicalize().unwrap();
    let cache = place.join("cache");
    calls(&cache);
    let loaded = load(&cache);
    first_calls(&cache);
    files(&loaded, &place);
}

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn show(what: &str, figure: String, aim: &str) {
    println!("{what:<52} {figure:>12}  {aim}");
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(Path::new(act_component::builtin::TEST_COMPONENTS).join(name)).unwrap()
}

/// Loads the component with the grants of a Scout, all of which it declares.
fn load(cache: &Path) -> ScoutComponent {
    let needs = ["repo.read", "llm"].map(|grant| json!({"grant": grant, "why": "to be measured"}));
    let manifest = json!({"kind": "scout", "name": "small", "version": "1", "about": "Small.",
        "needs": needs, "report": {}});
    let packed = custom_section::pack(&bytes("hostile.wasm"), manifest.to_string().as_bytes());
    let grant = Grant::builtin_scout().within(PLENTY);
    loaded(cache, &packed, grant).into_scout().unwrap()
}

fn loaded(cache: &Path, bytes: &[u8], grant: Grant) -> Loaded {
    ComponentHost::new(Some(cache)).load(bytes, grant, &Events::silent()).unwrap()
}

fn question(text: &str) -> ScoutQuestion {
    ScoutQuestion { text: text.to_owned(), ..ScoutQuestion::default() }
}

fn services(view: Option<&RepoView>) -> Services {
    let events = Events::silent();
    Services { view: view.cloned(), versions: None, writer: None, model: None, attempt: 1, events }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn ask(loaded: &ScoutComponent, text: &str, view: Option<&RepoView>) -> Value {
    let never = CancellationToken::new();
    let asked = loaded.ask(question(text), services(view), PLENTY, &never);
    serde_json::from_str(&runtime().block_on(asked).unwrap()).unwrap()
}

/// Measures one store, one instance and one call, then the engine alone with the same settings, limits and code. Both take
/// turns, so that they share the moods of the machine. A caller of ours has its answer before the store is given back, so
/// the engine is measured to its answer too, and once more to the end of its store.
fn calls(cache: &Path) {
    const ROUND: usize = 500;
    let ours = loaded(cache, &bytes("echo.wasm"), Grant::default()).into_tool().unwrap();
    let (alone, runtime) = (Alone::new(), runtime());
    let (mut called, mut answered, mut dropped) = (vec![], vec![], vec![]);
    let mut rest = number("BENCH_CALLS", 10_000);
    // The first round makes threads and touches memory.
    for round in 0.. {
        if rest == 0 {
            break;
        }
        let count = if round == 0 { ROUND } else { ROUND.min(rest) };
        for _ in 0..count {
            let start = Instant::now();
            assert_eq!(runtime.block_on(echo(&ours)), ARGUMENTS);
            called.push(start.elapsed().as_secs_f64() * 1e6);
        }
        for _ in 0..count {
            let start = Instant::now();
            let (answer, store) = alone.call(ARGUMENTS);
            answered.push(start.elapsed().as_secs_f64() * 1e6);
            drop(store);
            dropped.push(start.elapsed().as_secs_f64() * 1e6);
            assert_eq!(answer, ARGUMENTS);
        }
        if round == 0 {
            for all in [&mut called, &mut answered, &mut dropped] {
                all.clear();
            }
        } else {
            rest -= count;
        }
    }
    let (called, answered, dropped) = (median(called), median(answered), median(dropped));
    show("instantiate and call, warm, median", format!("{called:.1} us"), "aim: 100");
    show("  the engine alone, to its answer", format!("{answered:.1} us"), "");
    show("  the engine alone, with the end of its store", format!("{dropped:.1} us"), "");
    show("  ours, times the engine to its answer", format!("{:.2} x", called / answered), "");
    show("  ours, times the engine alone", format!("{:.2} x", called / dropped), "aim: 1.3");
}

/// What the tool returns.
const ARGUMENTS: &str = r#"{"text": "hello"}"#;

async fn echo(tool: &ToolComponent) -> String {
    let never = CancellationToken::new();
    tool.call("echo", ARGUMENTS, services(None), PLENTY, &never).await.unwrap().text
}

/// The engine as the host uses it, without the host.
struct Alone {
    engine: Engine,
    code: ToolPre<Bare>,
    runtime: tokio::runtime::Runtime,
}

impl Alone {
    fn new() -> Self {
        let engine = Engine::new(&act_component::engine_config()).unwrap();
        let component = Component::new(&engine, bytes("echo.wasm")).unwrap();
        let code = ToolPre::new(linker(&component).instantiate_pre(&component).unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { engine, code, runtime }
    }

    /// Returns the answer with the store that it came from. The limits are those of a grant without any choice of the user.
    fn call(&self, arguments: &str) -> (String, Store<Bare>) {
        let limits = StoreLimitsBuilder::new()
            .memory_size(256 << 20)
            .table_elements(100_000)
            .instances(256)
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(1_000);
        let bare = Bare { wasi: WasiCtx::builder().build(), table, limits };
        let mut store = Store::new(&self.engine, bare);
        store.limiter(|bare| &mut bare.limits);
        store.set_hostcall_fuel(8 << 20);
        store.set_max_component_handles(1_000);
        store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Continue(1)));
        store.set_epoch_deadline(1);
        let arguments = arguments.to_owned();
        let answer = self.runtime.block_on(async {
            let instance = self.code.instantiate_async(&mut store).await.unwrap();
            let tool = instance.agentcommand_tool_tool();
            tool.call_call(&mut store, "echo", &arguments).await.unwrap().unwrap()
        });
        (answer.text, store)
    }
}

/// Links the host's interfaces as traps, so that the component can be instantiated.
fn without_ours(linker: &mut Linker<Bare>, component: &Component) {
    let engine = component.engine().clone();
    for (name, import) in component.component_type().imports(&engine) {
        let ComponentItem::ComponentInstance(interface) = import.ty else { continue };
        if !name.starts_with("agentcommand:") {
            continue;
        }
        let mut instance = linker.instance(name).unwrap();
        for (name, export) in interface.exports(&engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    let trap = |_: StoreContextMut<'_, Bare>, _, _: &[Val], _: &mut [Val]| {
                        Err(wasmtime::Error::msg("not here"))
                    };
                    instance.func_new(name, trap).unwrap();
                }
                ComponentItem::Resource(_) => {
                    let kind = ResourceType::host::<()>();
                    instance.resource(name, kind, |_, _| Ok(())).unwrap();
                }
                _ => {}
            }
        }
    }
}

/// Links WASI, and the host's interfaces as traps.
fn linker(component: &Component) -> Linker<Bare> {
    let mut linker = Linker::new(component.engine());
    wasmtime_wasi::p2::add_to_linker_sync(&mut linker).unwrap();
    without_ours(&mut linker, component);
    linker
}

/// Measures from the first line of `main` to the answer, and the whole process from outside.
fn first_calls(cache: &Path) {
    let (mut inside, mut outside) = (vec![], vec![]);
    for _ in 0..number("BENCH_STARTS", 20) {
        let start = Instant::now();
        let mut child = Command::new(std::env::current_exe().unwrap());
        let told = child.env(CHILD, cache).output().unwrap();
        outside.push(start.elapsed().as_secs_f64() * 1e3);
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        inside.push(String::from_utf8(told.stdout).unwrap().trim().parse().unwrap());
    }
    show(
        "first call in a new process, cached, median",
        format!("{:.1} ms", median(inside)),
        "aim: 15",
    );
    show("  the whole process", format!("{:.1} ms", median(outside)), "");
}

/// Returns the processor time of all threads of this process in seconds.
fn processor() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// How often everything is read in each way.
const ROUNDS: usize = 9;

/// Measures each way of reading after it has read everything once, so that all files are in the page cache.
fn files(loaded: &ScoutComponent, place: &Path) {
    let count = number("BENCH_FILES", 20_000);
    let repo = repository(place, count);
    let view = RepoView::open(&repo, Profile::Scout).unwrap();
    let plain = Plain::new();
    let all = json!([count, count * FILE]);
    type Way<'a> = (&'a str, &'a str, &'a dyn Fn() -> Value);
    let ways: [Way<'_>; 4] = [
        ("", "", &|| native(&repo)),
        ("plain WASI", "", &|| plain.ask("read-everything", Some(&repo))),
        ("filtered view", "", &|| ask(loaded, "read-everything", Some(&view))),
        ("filtered view, in batches", "aim: 1.8", &|| {
            ask(loaded, "batch-read-everything", Some(&view))
        }),
    ];
    for (_, _, way) in ways {
        assert_eq!(way(), all);
    }
    // In turn, so that all meet the same load.
    let mut rounds = ways.map(|_| vec![]);
    for _ in 0..ROUNDS {
        for ((_, _, way), taken) in ways.iter().zip(&mut rounds) {
            let (start, began) = (processor(), Instant::now());
            assert_eq!(way(), all);
            taken.push((processor() - start, began.elapsed().as_secs_f64()));
        }
    }
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let native = rounds[0].clone();
    for ((name, aim, _), taken) in ways.into_iter().zip(rounds) {
        let wall = middle(taken.iter().map(|(_, wall)| *wall).collect());
        if name.is_empty() {
            let title = format!("{count} files, {} MB, read natively", count * FILE / 1_000_000);
            let used = middle(taken.iter().map(|(used, _)| *used).collect());
            show(&title, format!("{used:.2} s"), &format!("of processor time; {wall:.2} s in all"));
            continue;
        }
        let ratios = taken.iter().zip(&native).map(|(ours, native)| ours.0 / native.0).collect();
        let aim = format!("native processor time  {aim}  ({wall:.2} s in all)");
        show(&format!("  {name}"), format!("{:.2} x", middle(ratios)), &aim);
    }
}

fn repository(place: &Path, count: usize) -> PathBuf {
    let repo = place.join("repo");
    let line = "let value = compute(value, 42); // what a line of code looks like\n";
    let text: String = line.chars().cycle().take(FILE).collect();
    for at in 0..count {
        let directory = repo.join(format!("src/d{}", at / 100));
        if at % 100 == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(directory.join(format!("m{at}.rs")), &text).unwrap();
    }
    fs::create_dir_all(&repo).unwrap();
    repo
}

fn native(directory: &Path) -> Value {
    fn below(directory: &Path, sum: &mut (usize, usize)) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                below(&entry.path(), sum);
            } else {
                *sum = (sum.0 + 1, sum.1 + fs::read(entry.path()).unwrap().len());
            }
        }
    }
    let mut sum = (0, 0);
    below(directory, &mut sum);
    json!(sum)
}

/// The engine as its documentation uses it, with the host's epochs and a limit of memory, and without its grants.
struct Plain {
    engine: Engine,
    component: Component,
    linker: Linker<Bare>,
}

struct Bare {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
}

impl WasiView for Bare {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl Plain {
    fn new() -> Self {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let engine = Engine::new(&config).unwrap();
        let component = Component::new(&engine, bytes("hostile.wasm")).unwrap();
        let linker = linker(&component);
        Self { engine, component, linker }
    }

    /// Preopens this directory, if any, as `/repo`.
    fn ask(&self, text: &str, repo: Option<&Path>) -> Value {
        let mut wasi = WasiCtx::builder();
        if let Some(repo) = repo {
            wasi.preopened_dir(repo, "/repo", FsPerms::ReadOnly).unwrap();
        }
        let limits = StoreLimitsBuilder::new().memory_size(256 << 20).build();
        let bare = Bare { wasi: wasi.build(), table: ResourceTable::new(), limits };
        let mut store = Store::new(&self.engine, bare);
        store.limiter(|bare| &mut bare.limits);
        store.set_epoch_deadline(1);
        let instance = self.linker.instantiate(&mut store, &self.component).unwrap();
        let kind = self.component.component_type();
        let mut exports = kind.exports(&self.engine).map(|(name, _)| name);
        let name = exports.find(|name| name.starts_with("agentcommand:scout/scout@")).unwrap();
        let scout = instance.get_export_index(&mut store, None, name);
        let ask = instance.get_export_index(&mut store, scout.as_ref(), "ask").unwrap();
        let ask = instance.get_func(&mut store, ask).unwrap();
        let question = Val::Record(vec![
            ("text".into(), Val::String(text.into())),
            ("context".into(), Val::List(vec![])),
            ("facts-only".into(), Val::Bool(false)),
        ]);
        let mut answer = [Val::Bool(false)];
        ask.call(&mut store, &[question], &mut answer).unwrap();
        let [Val::Result(Ok(Some(report)))] = answer else { panic!("no report") };
        let Val::String(report) = *report else { panic!("no text") };
        serde_json::from_str(&report).unwrap()
    }
}
