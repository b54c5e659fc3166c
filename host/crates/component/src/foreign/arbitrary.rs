//! Arbitrary types of parameters, for property tests of this crate and of the conformance checks.

use proptest::prelude::*;
use serde_json::Value;

use super::json::{arguments, parameters_schema};
use super::{Int, Type};

pub(super) fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("name-{i}")).collect()
}

const INTS: [Int; 8] =
    [Int::S8, Int::U8, Int::S16, Int::U16, Int::S32, Int::U32, Int::S64, Int::U64];

pub(super) fn types() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::Bool),
        prop::sample::select(&INTS[..]).prop_map(Type::Int),
        Just(Type::F32),
        Just(Type::F64),
        Just(Type::Char),
        Just(Type::String),
        Just(Type::Bytes),
        (1..5_usize).prop_map(|count| Type::Enum(names(count))),
        (1..5_usize).prop_map(|count| Type::Flags(names(count))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let some = prop::collection::vec(inner.clone(), 1..4);
        let maybe = prop::option::of(inner);
        let cases = prop::collection::vec(maybe.clone(), 1..4);
        let named = |types: Vec<Type>| names(types.len()).into_iter().zip(types).collect();
        prop_oneof![
            boxed.clone().prop_map(list),
            some.clone().prop_map(Type::Tuple),
            some.prop_map(move |types| Type::Record(named(types))),
            cases.prop_map(|types| Type::Variant(
                names(types.len()).into_iter().zip(types).collect()
            )),
            boxed.prop_map(Type::Option),
            (maybe.clone(), maybe)
                .prop_map(|(ok, error)| Type::Result(ok.map(Box::new), error.map(Box::new))),
        ]
    })
}

/// A list as `read` returns it: `list<u8>` is `Bytes`.
pub(super) fn list(of: Box<Type>) -> Type {
    if *of == Type::Int(Int::U8) { Type::Bytes } else { Type::List(of) }
}

/// Parameters of a function, with names that parameters for files often have.
#[derive(Debug)]
pub struct Parameters(Vec<(String, Type)>);

impl Parameters {
    pub fn any() -> impl Strategy<Value = Self> {
        let deep = (types(), 0..8_usize).prop_map(|(of, times)| (0..times).fold(of, wrap));
        let named = |types: Vec<Type>| {
            ["path", "notes_files", "it"].map(str::to_owned).into_iter().zip(types).collect()
        };
        prop::collection::vec(deep, 0..4).prop_map(move |types| Self(named(types)))
    }

    /// Returns the JSON Schema of the parameters.
    pub fn schema(&self) -> Value {
        parameters_schema(&self.0)
    }

    /// Converts JSON arguments to values of these parameters.
    ///
    /// # Errors
    ///
    /// The message of the first value that does not fit.
    pub fn convert(&self, text: &str) -> Result<(), String> {
        arguments(&self.0, text).map(drop).map_err(|error| error.to_string())
    }
}

pub(super) fn wrap(of: Type, turn: usize) -> Type {
    match turn % 5 {
        0 => Type::Option(Box::new(of)),
        1 => Type::Tuple(vec![of]),
        2 => Type::Result(None, Some(Box::new(of))),
        3 => Type::Variant(vec![("case".to_owned(), Some(of))]),
        _ => list(Box::new(of)),
    }
}
