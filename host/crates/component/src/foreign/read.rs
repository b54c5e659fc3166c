//! The functions that a component exports, read from its type: nothing is compiled and nothing runs.

use std::collections::BTreeMap;

use wasmparser::component_types::{
    ComponentDefinedType, ComponentEntityType, ComponentFuncTypeId, ComponentValType,
};
use wasmparser::types::{Types, TypesRef};
use wasmparser::{
    BinaryReaderError, Parser, PrimitiveValType, ValidPayload, Validator, WasmFeatures,
};

use super::LeftOut;
use super::types::{Function, Int, Type};

/// Types inside each other. The model has to write such a value, and our own walks are as deep.
const MAX_DEPTH: usize = 16;
/// Types in one function, each as often as it is used: a type that names another one twice, and so on, is small in the
/// file and not outside of it.
const MAX_TYPES: usize = 1_000;
/// Of the names of cases, fields and flags in one function.
const MAX_NAMES: usize = 32 << 10;
/// Functions that are looked at: one type may be exported as often as there are bytes for its name.
const MAX_FUNCTIONS: usize = 1_000;
const MAX_TOOLS: usize = 64;
/// Of all schemas together, as much as a manifest may have.
const MAX_SCHEMAS: usize = 256 << 10;
/// Leaves room for `NAME__` in what a model takes as a tool's name.
const MAX_NAME: usize = 56;

/// What a component offers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) functions: Vec<Function>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// All exported functions, bare or in an interface, in the order in which they are exported. `exports` are the names of
/// the top level.
pub(crate) fn read(bytes: &[u8], exports: &[String]) -> Result<Found, BinaryReaderError> {
    let mut found = Found::default();
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
            Ok(function) => found.functions.push(function),
            Err(why) => found.left_out.push(LeftOut { function: full_name(interface, name), why }),
        }
    }
    found.tell_apart();
    if beyond > 0 {
        let why = format!("there are {MAX_FUNCTIONS} before them");
        found.left_out.push(LeftOut { function: format!("{beyond} functions"), why });
    }
    Ok(found)
}

/// Checked as the engine does it, without the bodies of functions, which it checks itself when it compiles them. What
/// the engine does not take is taken here, so that it can be named.
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

fn function(
    types: TypesRef<'_>,
    interface: Option<&str>,
    name: &str,
    id: ComponentFuncTypeId,
) -> Result<Function, String> {
    if interface.is_some_and(|interface| interface.starts_with("wasi:")) {
        return Err("it is for a host of that interface to call, not a function of its own".into());
    }
    if name.starts_with('[') {
        return Err("it belongs to a resource, which lives longer than one call".to_owned());
    }
    let of = &types[id];
    if of.async_ {
        return Err("it is asynchronous".to_owned());
    }
    let mut walk = Walk { types, left: MAX_TYPES, names: MAX_NAMES };
    let mut params = vec![];
    for (name, of) in &of.params {
        let of =
            walk.value(*of, MAX_DEPTH).map_err(|why| format!("its parameter `{name}` {why}"))?;
        params.push((walk.name(name)?, of));
    }
    let result = of.result.map(|of| walk.value(of, MAX_DEPTH)).transpose();
    let result = result.map_err(|why| format!("its result {why}"))?;
    let interface = interface.map(str::to_owned);
    Ok(Function { tool: String::new(), interface, name: name.to_owned(), params, result })
}

struct Walk<'a> {
    types: TypesRef<'a>,
    left: usize,
    names: usize,
}

impl Walk<'_> {
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

impl Found {
    /// Gives each function the name that it has as a tool: its own, with its interface's before it, and with the
    /// package's too where that is not enough.
    fn tell_apart(&mut self) {
        let names = self.functions.iter().map(|function| function.short_name());
        let mut often = BTreeMap::new();
        names.for_each(|name| *often.entry(name).or_insert(0) += 1);
        let (mut tools, mut bytes): (Vec<Function>, usize) = (vec![], 0);
        for mut function in std::mem::take(&mut self.functions) {
            let short = function.short_name();
            let is_only = often.get(&short) == Some(&1);
            function.tool = if is_only { short } else { function.long_name() };
            let mut schema = 0;
            let why = if tools.len() == MAX_TOOLS {
                Some(format!("there are {MAX_TOOLS} before it"))
            } else if function.tool.len() > MAX_NAME {
                Some(format!("its name has more than {MAX_NAME} bytes"))
            } else if tools.iter().any(|other| other.tool == function.tool) {
                Some(format!("another one is called `{}` already", function.tool))
            } else {
                schema = super::schema::parameters(&function.params).to_string().len();
                let over = bytes + schema > MAX_SCHEMAS;
                over.then(|| "the schemas of all are too large together".to_owned())
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
        plain(&[interface, &self.name])
    }

    fn long_name(&self) -> String {
        plain(&[self.interface.as_deref().unwrap_or_default(), &self.name])
    }
}

/// Of letters, digits and `_` alone.
fn plain(parts: &[&str]) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let parts = parts.iter().filter(|part| !part.is_empty());
    let parts: Vec<String> = parts.map(|part| part.chars().map(word).collect()).collect();
    parts.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leb(mut n: usize) -> Vec<u8> {
        let mut out = vec![];
        loop {
            let byte = u8::try_from(n & 0x7f).unwrap();
            n >>= 7;
            if n == 0 {
                out.push(byte);
                return out;
            }
            out.push(byte | 0x80);
        }
    }

    fn sized(bytes: Vec<u8>) -> Vec<u8> {
        [leb(bytes.len()), bytes].concat()
    }

    fn section(id: u8, items: &[Vec<u8>]) -> Vec<u8> {
        [vec![id], sized([leb(items.len()), items.concat()].concat())].concat()
    }

    fn name(text: &str) -> Vec<u8> {
        sized(text.as_bytes().to_vec())
    }

    /// One function with one parameter of that name, exported that often from an interface.
    fn exporting(times: usize, parameter: &str) -> Vec<u8> {
        let core = [
            b"\0asm\x01\0\0\0".to_vec(),
            section(1, &[b"\x60\x01\x7f\0".to_vec()]),
            section(3, &[vec![0]]),
            section(7, &[[name("f"), vec![0, 0]].concat()]),
            section(10, &[b"\x02\0\x0b".to_vec()]),
        ];
        let exports: Vec<_> =
            (0..times).map(|n| [vec![0], name(&format!("a{n}")), vec![1, 0]].concat()).collect();
        let of = [vec![0x40], leb(1), name(parameter), vec![0x79, 1, 0]].concat();
        [
            b"\0asm\x0d\0\x01\0".to_vec(),
            [vec![1], sized(core.concat())].concat(),
            section(2, &[vec![0, 0, 0]]),
            section(6, &[[vec![0, 0, 1, 0], name("f")].concat()]),
            section(7, &[of]),
            section(8, &[vec![0, 0, 0, 0, 0]]),
            section(5, &[[vec![1], leb(times), exports.concat()].concat()]),
            section(11, &[[vec![0], name("x:y/i"), vec![5, 0, 0]].concat()]),
        ]
        .concat()
    }

    // FOREIGN-2: one type is small in the file, however often it is exported
    #[test]
    fn only_so_many_functions_are_looked_at() {
        let exports = ["x:y/i".to_owned()];
        let found = read(&exporting(3, "p"), &exports).unwrap();
        assert_eq!((found.functions.len(), found.left_out.len()), (3, 0));
        let found = read(&exporting(MAX_FUNCTIONS + 500, "p"), &exports).unwrap();
        assert_eq!(found.functions.len(), MAX_TOOLS);
        assert_eq!(found.left_out.len(), MAX_FUNCTIONS - MAX_TOOLS + 1);
        assert_eq!(found.left_out.last().unwrap().function, "500 functions");
    }
}
