//! Foreign components, which know none of the interfaces in `wit/`: the functions that they export are their tools.
//!
//! [`read`] finds the exported functions in a component's type, without compiling it, and [`tools`] describes them to the
//! model. [`call`] calls one of them; `json` converts arguments and results. Admission decides about these components as
//! about all others.

pub(crate) mod docs;
mod json;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use act_model::ToolSpec;
use act_workspace::Applied;
use serde_json::Value;
use wasmparser::component_types::{
    ComponentDefinedType, ComponentEntityType, ComponentFuncTypeId, ComponentValType,
};
use wasmparser::types::{Types, TypesRef};
use wasmparser::{
    BinaryReaderError, Parser, PrimitiveValType, ValidPayload, Validator, WasmFeatures,
};
use wasmtime::Store;
use wasmtime::component::{InstancePre, Val};

use self::docs::Docs;
use self::json::{parameters_schema, payload};
use crate::ToolOutcome;
use crate::call::{CallContext, State};
use crate::failure::{Ended, GuestFailure, MAX_LINE, one_line};

/// The world of a foreign component, as listings and records name it.
pub(super) const WORLD: &str = "foreign";

/// Maximum nesting of types. The model has to write such a value, and the recursive functions here go as deep.
const MAX_DEPTH: usize = 16;
/// Maximum number of types in one function, each counted as often as it is used. A type that contains another one twice,
/// which does so again, is small in the file and grows exponentially outside of it.
const MAX_TYPES: usize = 1_000;
/// Maximum number of bytes in the names of cases, fields and flags of one function.
const MAX_NAMES: usize = 32 << 10;
/// Maximum number of functions that are read. A component can export one type as often as it has bytes for names.
const MAX_FUNCTIONS: usize = 1_000;
const MAX_TOOLS: usize = 64;
/// Maximum number of bytes in all schemas together, as much as a manifest may have.
const MAX_SCHEMAS: usize = 256 << 10;
/// Maximum length of a name. It leaves room for `NAME__` in what models accept as the name of a tool.
const MAX_NAME: usize = 56;
/// Maximum length of a description. A longer signature is cut, because the schema holds the parameters too.
const MAX_SIGNATURE: usize = 1000;

/// A function that is no tool, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LeftOut {
    pub function: String,
    pub why: String,
}

/// An exported function, and its name as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    tool: String,
    /// The exported interface that holds the function; `None` if the component exports the function itself.
    interface: Option<String>,
    name: String,
    /// The comment of its author.
    comment: Option<String>,
    params: Vec<(String, Type)>,
    result: Option<Type>,
}

/// The type of a value that JSON can express. [`read`] bounds its depth and size.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Type {
    Bool,
    Int(Int),
    F32,
    F64,
    Char,
    String,
    /// `list<u8>`, which is nearly always text or a file.
    Bytes,
    List(Box<Type>),
    Tuple(Vec<Type>),
    Record(Vec<(String, Type)>),
    Variant(Vec<(String, Option<Type>)>),
    Enum(Vec<String>),
    Flags(Vec<String>),
    Option(Box<Type>),
    Result(Option<Box<Type>>, Option<Box<Type>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Int {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

impl Int {
    fn bounds(self) -> (i128, i128) {
        match self {
            Self::S8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::S16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::S32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::S64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
        }
    }

    /// Returns whether some values are larger than a double holds exactly, so that readers of JSON disagree on them.
    fn is_wide(self) -> bool {
        matches!(self, Self::S64 | Self::U64)
    }

    fn word(self) -> &'static str {
        match self {
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S16 => "s16",
            Self::U16 => "u16",
            Self::S32 => "s32",
            Self::U32 => "u32",
            Self::S64 => "s64",
            Self::U64 => "u64",
        }
    }
}

/// Writes the type as WIT does, on one line.
impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int(int) => f.write_str(int.word()),
            Self::F32 => f.write_str("f32"),
            Self::F64 => f.write_str("f64"),
            Self::Char => f.write_str("char"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("list<u8>"),
            Self::List(of) => write!(f, "list<{of}>"),
            Self::Tuple(types) => write!(f, "tuple<{}>", Joined(types)),
            Self::Record(fields) => {
                let field = |(name, of): &(String, Type)| format!("{name}: {of}");
                write!(f, "record {{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
            Self::Variant(cases) => {
                let case = |(name, of): &(String, Option<Type>)| match of {
                    Some(of) => format!("{name}({of})"),
                    None => name.clone(),
                };
                write!(f, "variant {{{}}}", cases.iter().map(case).collect::<Vec<_>>().join(", "))
            }
            Self::Enum(names) => write!(f, "enum {{{}}}", names.join(", ")),
            Self::Flags(names) => write!(f, "flags {{{}}}", names.join(", ")),
            Self::Option(of) => write!(f, "option<{of}>"),
            Self::Result(None, None) => f.write_str("result"),
            Self::Result(Some(ok), None) => write!(f, "result<{ok}>"),
            Self::Result(None, Some(error)) => write!(f, "result<_, {error}>"),
            Self::Result(Some(ok), Some(error)) => write!(f, "result<{ok}, {error}>"),
        }
    }
}

struct Joined<'a>(&'a [Type]);

impl Display for Joined<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let types: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&types.join(", "))
    }
}

/// Writes the description for the model: the comment of the author, and the signature.
impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(comment) = &self.comment {
            write!(f, "{comment} ")?;
        }
        let params = self.params.iter().map(|(name, of)| format!("{name}: {of}"));
        let mut line = format!("{}: func({})", self.name, params.collect::<Vec<_>>().join(", "));
        if let Some(result) = &self.result {
            line.push_str(&format!(" -> {result}"));
        }
        if line.len() > MAX_SIGNATURE {
            line.truncate(line.floor_char_boundary(MAX_SIGNATURE));
            line.push('…');
        }
        match &self.interface {
            Some(interface) => write!(f, "`{line}` of {interface}"),
            None => write!(f, "`{line}`"),
        }
    }
}

/// The exported functions of a component.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportedFunctions {
    pub(crate) functions: Vec<Function>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Reads all functions that the component exports itself or in an interface, in the order of the exports. `exports` are the
/// names at the top level, and `docs` has the comments of its author.
///
/// # Errors
///
/// The error of the parser if the component is damaged.
pub(crate) fn read(
    bytes: &[u8],
    exports: &[String],
    docs: &Docs,
) -> Result<ExportedFunctions, BinaryReaderError> {
    let mut found = ExportedFunctions::default();
    let Some(types) = types(bytes)? else { return Ok(found) };
    let types = types.as_ref();
    let mut candidates = vec![];
    for export in exports {
        let Some(item) = types.component_item_for_export(export) else { continue };
        match item.ty {
            ComponentEntityType::Func(id) => candidates.push((None, export.as_str(), id)),
            ComponentEntityType::Instance(id) => {
                for (name, item) in &types[id].exports {
                    if let ComponentEntityType::Func(id) = item.ty {
                        candidates.push((Some(export.as_str()), name.as_str(), id));
                    }
                }
            }
            _ => {}
        }
    }
    let beyond = candidates.len().saturating_sub(MAX_FUNCTIONS);
    for (interface, name, id) in candidates.into_iter().take(MAX_FUNCTIONS) {
        match function(types, interface, name, id) {
            Ok(function) => {
                let comment = docs.of(interface, name);
                found.functions.push(Function { comment, ..function });
            }
            Err(why) => found.left_out.push(LeftOut { function: full_name(interface, name), why }),
        }
    }
    found.name_tools();
    if beyond > 0 {
        let why = format!("only the first {MAX_FUNCTIONS} are read");
        found.left_out.push(LeftOut { function: format!("{beyond} functions"), why });
    }
    Ok(found)
}

/// Validates the component without the bodies of its functions, which the engine checks when it compiles them. All features
/// are enabled, so that a function with a type that the engine does not support is left out by name.
fn types(bytes: &[u8]) -> Result<Option<Types>, BinaryReaderError> {
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut last = None;
    for payload in Parser::new(0).parse_all(bytes) {
        if let ValidPayload::End(types) = validator.payload(&payload?)? {
            last = Some(types);
        }
    }
    Ok(last)
}

fn full_name(interface: Option<&str>, name: &str) -> String {
    interface.map_or_else(|| name.to_owned(), |interface| format!("{interface}#{name}"))
}

/// Reads one function, or says why it cannot be a tool.
fn function(
    types: TypesRef<'_>,
    interface: Option<&str>,
    name: &str,
    id: ComponentFuncTypeId,
) -> Result<Function, String> {
    if interface.is_some_and(|interface| interface.starts_with("wasi:")) {
        return Err("a host calls it through that interface, so it is not a tool".into());
    }
    if is_of_the_runtime(interface, name) {
        return Err(
            "it belongs to the runtime of the component's language, not to its author".into()
        );
    }
    if name.starts_with('[') {
        return Err("it belongs to a resource, which lives longer than one call".to_owned());
    }
    let of = &types[id];
    if of.async_ {
        return Err("it is asynchronous".to_owned());
    }
    let mut reader = TypeReader { types, left: MAX_TYPES, names: MAX_NAMES };
    let mut params = vec![];
    for (name, of) in &of.params {
        let of =
            reader.value(*of, MAX_DEPTH).map_err(|why| format!("its parameter `{name}` {why}"))?;
        params.push((reader.name(name)?, of));
    }
    let result = of.result.map(|of| reader.value(of, MAX_DEPTH)).transpose();
    let result = result.map_err(|why| format!("its result {why}"))?;
    let interface = interface.map(str::to_owned);
    let (tool, name) = (String::new(), name.to_owned());
    Ok(Function { tool, interface, name, comment: None, params, result })
}

/// Returns whether a toolchain exports the function for itself: Python's `exports#init`, the functions of the canonical ABI,
/// and the initialisation of a library. To call one of them twice, or with values of a model, would break the component.
fn is_of_the_runtime(interface: Option<&str>, name: &str) -> bool {
    let name = identifier(&[name]);
    let interface = interface.unwrap_or_default();
    let is_python = interface.split('@').next() == Some("exports") && name == "init";
    is_python || name.starts_with("cabi_") || matches!(name.as_str(), "_initialize" | "_start")
}

/// Reads the types of one function within its bounds.
struct TypeReader<'a> {
    types: TypesRef<'a>,
    /// Number of types that may still be read.
    left: usize,
    /// Bytes of names that may still be read.
    names: usize,
}

impl TypeReader<'_> {
    fn value(&mut self, of: ComponentValType, depth: usize) -> Result<Type, String> {
        self.left = self.left.checked_sub(1).ok_or("has a type of more than 1,000 parts")?;
        let depth = depth.checked_sub(1).ok_or("has a type that is too deep")?;
        let id = match of {
            ComponentValType::Primitive(of) => return primitive(of),
            ComponentValType::Type(id) => id,
        };
        let types = self.types;
        Ok(match &types[id] {
            ComponentDefinedType::Primitive(of) => primitive(*of)?,
            ComponentDefinedType::List { element, .. } => match self.value(*element, depth)? {
                Type::Int(Int::U8) => Type::Bytes,
                of => Type::List(Box::new(of)),
            },
            ComponentDefinedType::Tuple(tuple) => {
                let items = tuple.types.iter().map(|of| self.value(*of, depth));
                Type::Tuple(items.collect::<Result<_, _>>()?)
            }
            ComponentDefinedType::Record(record) => {
                let fields = record.fields.iter();
                let fields =
                    fields.map(|(name, of)| Ok((self.name(name)?, self.value(*of, depth)?)));
                Type::Record(fields.collect::<Result<_, String>>()?)
            }
            ComponentDefinedType::Variant(variant) => {
                let cases = variant
                    .cases
                    .iter()
                    .map(|(name, case)| Ok((self.name(name)?, self.maybe(case.ty, depth)?)));
                Type::Variant(cases.collect::<Result<_, String>>()?)
            }
            ComponentDefinedType::Enum(names) => {
                Type::Enum(names.iter().map(|name| self.name(name)).collect::<Result<_, _>>()?)
            }
            ComponentDefinedType::Flags(names) => {
                Type::Flags(names.iter().map(|name| self.name(name)).collect::<Result<_, _>>()?)
            }
            ComponentDefinedType::Option { ty, .. } => {
                Type::Option(Box::new(self.value(*ty, depth)?))
            }
            ComponentDefinedType::Result { ok, err, .. } => {
                let (ok, error) = (self.maybe(*ok, depth)?, self.maybe(*err, depth)?);
                Type::Result(ok.map(Box::new), error.map(Box::new))
            }
            ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => {
                return Err("is or holds a resource, which lives longer than one call".to_owned());
            }
            ComponentDefinedType::Stream { .. } => return Err("is or holds a stream".to_owned()),
            ComponentDefinedType::Future { .. } => return Err("is or holds a future".to_owned()),
            ComponentDefinedType::Map { .. } => return Err("is or holds a map".to_owned()),
            ComponentDefinedType::FixedLengthList { .. } => {
                return Err("is or holds a list of fixed length".to_owned());
            }
        })
    }

    fn maybe(
        &mut self,
        of: Option<ComponentValType>,
        depth: usize,
    ) -> Result<Option<Type>, String> {
        of.map(|of| self.value(of, depth)).transpose()
    }

    fn name(&mut self, name: &str) -> Result<String, String> {
        let left = self.names.checked_sub(name.len());
        self.names = left.ok_or("has a type with too many or too long names")?;
        Ok(name.to_owned())
    }
}

fn primitive(of: PrimitiveValType) -> Result<Type, String> {
    Ok(match of {
        PrimitiveValType::Bool => Type::Bool,
        PrimitiveValType::S8 => Type::Int(Int::S8),
        PrimitiveValType::U8 => Type::Int(Int::U8),
        PrimitiveValType::S16 => Type::Int(Int::S16),
        PrimitiveValType::U16 => Type::Int(Int::U16),
        PrimitiveValType::S32 => Type::Int(Int::S32),
        PrimitiveValType::U32 => Type::Int(Int::U32),
        PrimitiveValType::S64 => Type::Int(Int::S64),
        PrimitiveValType::U64 => Type::Int(Int::U64),
        PrimitiveValType::F32 => Type::F32,
        PrimitiveValType::F64 => Type::F64,
        PrimitiveValType::Char => Type::Char,
        PrimitiveValType::String => Type::String,
        PrimitiveValType::ErrorContext => return Err("is or holds an error context".to_owned()),
    })
}

impl ExportedFunctions {
    /// Names the tools. The name has the interface before the function, and also the package if two functions would have
    /// the same name otherwise. Functions beyond the bounds are left out.
    fn name_tools(&mut self) {
        let names = self.functions.iter().map(|function| function.short_name());
        let mut counts = BTreeMap::new();
        names.for_each(|name| *counts.entry(name).or_insert(0) += 1);
        let (mut tools, mut bytes): (Vec<Function>, usize) = (vec![], 0);
        for mut function in std::mem::take(&mut self.functions) {
            let short = function.short_name();
            let is_only = counts.get(&short) == Some(&1);
            function.tool = if is_only { short } else { function.long_name() };
            let mut schema = 0;
            let why = if tools.len() == MAX_TOOLS {
                Some(format!("only the first {MAX_TOOLS} are offered"))
            } else if function.tool.len() > MAX_NAME {
                Some(format!("its name has more than {MAX_NAME} bytes"))
            } else if tools.iter().any(|other| other.tool == function.tool) {
                Some(format!("another tool is named `{}` already", function.tool))
            } else {
                schema = parameters_schema(&function.params).to_string().len();
                // Comments fill the model's prompt as well.
                schema += function.comment.as_ref().map_or(0, String::len);
                let over = bytes + schema > MAX_SCHEMAS;
                over.then(|| "the schemas of all tools together are too large".to_owned())
            };
            match why {
                None => {
                    bytes += schema;
                    tools.push(function);
                }
                Some(why) => {
                    let name = full_name(function.interface.as_deref(), &function.name);
                    self.left_out.push(LeftOut { function: name, why });
                }
            }
        }
        self.functions = tools;
    }
}

impl Function {
    fn short_name(&self) -> String {
        // `namespace:package/interface@version`
        let interface = self.interface.as_deref().unwrap_or_default();
        let interface = interface.split('@').next().unwrap_or_default();
        let interface = interface.rsplit('/').next().unwrap_or_default();
        identifier(&[interface, &self.name])
    }

    fn long_name(&self) -> String {
        identifier(&[self.interface.as_deref().unwrap_or_default(), &self.name])
    }
}

/// Joins the parts to a name of letters, digits and `_`.
fn identifier(parts: &[&str]) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let parts = parts.iter().filter(|part| !part.is_empty());
    let parts: Vec<String> = parts.map(|part| part.chars().map(word).collect()).collect();
    parts.join("_")
}

/// Describes the functions to the model. Those of a component that may see files are told where these are, because their
/// authors wrote them for other directories.
pub(super) fn tools(functions: &[Function], sees_files: bool) -> Vec<ToolSpec> {
    let note = if sees_files { ". The files of the repository are in /repo" } else { "" };
    let tool = |function: &Function| ToolSpec {
        name: function.tool.clone(),
        description: format!("{function}{note}"),
        parameters: parameters_schema(&function.params).to_string(),
    };
    functions.iter().map(tool).collect()
}

/// Calls a function. Arguments that do not fit its parameters are refused before any code of the component runs.
///
/// # Errors
///
/// An error of the engine, or a failure of the component.
pub(crate) async fn call(
    pre: &InstancePre<State>,
    functions: &[Function],
    store: &mut Store<State>,
    tool: &str,
    arguments: &str,
) -> wasmtime::Result<Result<ToolOutcome, GuestFailure>> {
    let Some(function) = functions.iter().find(|function| function.tool == tool) else {
        return Ok(Err(GuestFailure::UnknownTool));
    };
    let params = match json::arguments(&function.params, arguments) {
        Ok(params) => params,
        Err(error) => {
            let why = one_line(&error.to_string(), MAX_LINE);
            return Ok(Err(GuestFailure::BadArguments(why)));
        }
    };
    let instance = pre.instantiate_async(&mut *store).await?;
    let gone = || wasmtime::format_err!("it has no function `{}` any more", function.name);
    let interface = match &function.interface {
        Some(name) => Some(instance.get_export_index(&mut *store, None, name).ok_or_else(gone)?),
        None => None,
    };
    let index = instance.get_export_index(&mut *store, interface.as_ref(), &function.name);
    let index = index.ok_or_else(gone)?;
    let callee = instance.get_func(&mut *store, index).ok_or_else(gone)?;
    let mut results = vec![Val::Bool(false); usize::from(function.result.is_some())];
    callee.call_async(&mut *store, &params, &mut results).await?;
    let (mut answer, mut is_error) = answer(function.result.as_ref(), results.first())
        .ok_or_else(|| wasmtime::format_err!("its answer does not have the declared type"))?;
    // A failed call writes nothing: its scratch copy is dropped.
    if !is_error {
        is_error = !write_changes(&mut store.data_mut().call, &mut answer)?;
    }
    Ok(Ok(ToolOutcome { text: answer, is_error }))
}

/// Applies the changes of the scratch copy to the repository, all or none, and adds them to the answer. Returns whether the
/// call succeeded; otherwise the answer is the refusal.
fn write_changes(context: &mut CallContext, answer: &mut String) -> Result<bool, Ended> {
    let changes = context.scratch.take().map(|scratch| scratch.changes()).unwrap_or_default();
    if changes.is_empty() {
        return Ok(true);
    }
    let refused = |reason: &str, why: &str| {
        format!("{reason}: {why}; the component's changes were dropped, and no file changed")
    };
    match context.edit(&changes)? {
        Some(Ok(applied)) => {
            applied.iter().for_each(|one| answer.push_str(&format!("\n{}", line_of(one))));
            return Ok(true);
        }
        Some(Err(error)) => {
            *answer = refused(error.word().unwrap_or("tool_failed"), &error.to_string());
        }
        None => *answer = refused("tool_failed", "the component may not write here"),
    }
    Ok(false)
}

/// One change in the words of the file tools: `edited src/a.py · version 4`.
fn line_of(applied: &Applied) -> String {
    let verb = match applied.op {
        "create" => "created",
        "delete" => "deleted",
        _ => "edited",
    };
    let version = applied.version.as_ref().map(|version| format!(" · version {}", version.number));
    format!("{verb} {}{}", applied.path, version.unwrap_or_default())
}

/// Converts the result for the model, and says whether it is an error. `None` if the value does not have the type, which the
/// engine rules out.
fn answer(of: Option<&Type>, value: Option<&Val>) -> Option<(String, bool)> {
    Some(match (of, value) {
        (Some(Type::Result(ok, _)), Some(Val::Result(Ok(value)))) => {
            (text(ok.as_deref(), value.as_deref())?, false)
        }
        (Some(Type::Result(_, error)), Some(Val::Result(Err(value)))) => {
            (format!("tool_failed: {}", text(error.as_deref(), value.as_deref())?), true)
        }
        (of, value) => (text(of, value)?, false),
    })
}

/// A value as the model reads it: a text as it is, any other value as JSON, and `done` where there is no value.
fn text(of: Option<&Type>, value: Option<&Val>) -> Option<String> {
    Some(match (of, payload(of, value)?) {
        (None, _) => "done".to_owned(),
        (Some(_), Value::String(text)) => text,
        (Some(_), value) => value.to_string(),
    })
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod arbitrary;
#[cfg(test)]
mod tests;
