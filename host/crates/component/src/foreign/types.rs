//! Types of the component model whose values can be written as JSON, and functions over them.

use std::fmt::{self, Display, Formatter};

/// What a value may be. Finite and small: `read` bounds depth and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
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
pub(super) enum Int {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

/// Whole numbers up to here survive every reader of JSON.
pub(super) const SAFE: i128 = (1 << 53) - 1;

impl Int {
    pub(super) fn bounds(self) -> (i128, i128) {
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

    /// Some of its values are larger than JSON's readers agree on.
    pub(super) fn is_wide(self) -> bool {
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

/// An exported function and the name that it has as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(super) tool: String,
    /// The exported interface that it is in; none for one of the component's own.
    pub(super) interface: Option<String>,
    pub(super) name: String,
    pub(super) params: Vec<(String, Type)>,
    pub(super) result: Option<Type>,
}

/// As in WIT, on one line.
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

/// Longer signatures are cut: the schema says the same of the parameters.
const MAX_SIGNATURE: usize = 1000;

/// What the model reads: nobody has written a description, so it is the signature.
impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
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
